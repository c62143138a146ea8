#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Install the Debian packages that the given lists name and this machine lacks.
# A list has one package a line, what shows it is there, and a comment.
set -euo pipefail

fail() { printf 'deps: %s\n' "$*" >&2; exit 2; }

missing=()
while read -r package _; do
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
		missing+=("$package")
done < <(sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$@" | sort -u)

[ ${#missing[@]} -gt 0 ] || exit 0
command -v apt-get >/dev/null ||
	fail "this is no Debian; install what these packages hold yourself: ${missing[*]}"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null ||
		fail "become root and install: apt-get install --no-install-recommends ${missing[*]}"
	as_root=(sudo)
fi
echo "Installing ${#missing[@]} Debian packages: ${missing[*]}"
"${as_root[@]}" apt-get update -qq ||
	fail "apt-get update failed: connect to the network, or mend the package sources."
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
	apt-get install -y -qq --no-install-recommends "${missing[@]}" ||
	fail "apt-get could not install: ${missing[*]}"
