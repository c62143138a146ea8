#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# tuned calls it with start, stop or verify; what goes wrong is in /var/log/tuned/tuned.log.
settings=$(cd "$(dirname "$0")" && pwd)/host.toml
case $1 in
start) exec pvsync apply --host --file "$settings" ;;
stop) exec pvsync reset --host --file "$settings" ;;
verify) exec pvsync apply --host --check --file "$settings" >&2 ;;
*) echo "$0: start, stop or verify, not '$1'" >&2; exit 2 ;;
esac
