# SPDX-License-Identifier: GPL-2.0-only
"""Settings that outlive what they are for: /etc/pvsync/vms.toml, a table for each VM.

    [web]
    mark = "exit"

The host's own are in /etc/pvsync/host.toml, without a table; nothing here writes that file.
A VM is called by its name, or by its number in Proxmox. One writer at a time holds the lock
beside the file; readers need none, as the file is replaced whole.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lab.core import files
from lab.core.decode import DecodeError, read_toml
from lab.core.errors import LabError

FILE = Path("/etc/pvsync/vms.toml")
HOST_FILE = Path("/etc/pvsync/host.toml")
HEAD = """\
# Settings of VMs, applied when one starts. `pvsync set` and `pvsync reset` write this file;
# comments do not stay. After a change by hand: `pvsync apply`.
"""
LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
LOOKS, PAUSE_S = 100, 0.1
"""How often, and how far apart, to look whether another one has the lock."""
Settings = dict[str, str]
"""Names in the VM's folder of debugfs, to values."""


def read(file: Path) -> dict[str, Settings]:
    """VM to its settings, none without the file; LabError for what is not to be trusted."""
    with _trusted(file):
        return {name: _settings(f"{name}.", table)
                for name, table in read_toml(_text(file) or "").items()}


def read_host(file: Path) -> Settings:
    """The host's settings; LabError without the file, or for what is not to be trusted."""
    with _trusted(file):
        text = _text(file)
        if text is None:
            raise LabError(f"there is no {file}: write lines such as mark = \"exit\" into it")
        return _settings("", read_toml(text))


def _text(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except PermissionError:
        raise LabError(f"{file} cannot be read: run pvsync as root") from None
    except (OSError, UnicodeDecodeError) as error:
        raise LabError(f"{file} cannot be read ({_why(error)})") from None


@contextmanager
def _trusted(file: Path) -> Iterator[None]:
    try:
        yield
    except DecodeError as error:
        raise LabError(f"{file}: {error}: correct it, or remove the file") from None


def _settings(whose: str, table: object) -> Settings:
    if not isinstance(table, dict):
        name = whose.removesuffix(".")
        raise DecodeError(f"'{name}' must be a table, such as [{name}]")
    for key, value in table.items():
        if type(value) not in {str, int} or not str(value).isprintable():
            raise DecodeError(f"{whose}{key} must be a string or an integer")
        if value == "":
            raise DecodeError(f"{whose}{key} has no value")
    return {key: str(value) for key, value in table.items()}


def text_of(vms: dict[str, Settings]) -> str:
    """The file."""
    parts = [HEAD]
    for name in sorted(vms):
        lines = (f"{_string(key)} = {_string(value)}\n" for key, value in vms[name].items())
        parts.append(f"\n[{_string(name)}]\n{''.join(lines)}")
    return "".join(parts)


def _string(text: str) -> str:
    """As TOML takes it for a key and for a value."""
    return json.dumps(text, ensure_ascii=False)


@contextmanager
def locked(file: Path) -> Iterator[dict[str, Settings]]:
    """What is kept, for who will change it; others wait."""
    with alone(file):
        yield read(file)


@contextmanager
def alone(file: Path) -> Iterator[None]:
    """Have others that will change a file wait; LabError if its folder cannot be written.

    The lock is for root alone, as whoever can open it can hold it; and no symlink is followed.
    """
    try:
        file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        lock = os.open(file.parent / f".{file.name}.lock", LOCK, 0o600)
    except OSError as error:
        raise _cannot(file, error) from None
    try:
        with suppress(PermissionError):
            os.fchmod(lock, 0o600)
        if not files.lock(lock, LOOKS, PAUSE_S):
            raise LabError(f"another pvsync changes {file}: wait for its end; nothing was changed")
        for torn in file.parent.glob(f".{file.name}.*[0-9]"):  # of a writer that was killed
            torn.unlink(missing_ok=True)
        yield
    finally:
        os.close(lock)


@contextmanager
def replaced(file: Path, text: str) -> Iterator[None]:
    """Have the new file on the disk; it counts when the block is left without an error.

    The block raises no OSError of its own.
    """
    try:
        with files.prepared(file, text, 0o644):
            yield
    except OSError as error:
        raise _cannot(file, error) from None


def _cannot(file: Path, error: OSError) -> LabError:
    if isinstance(error, PermissionError):
        return LabError(f"{file} cannot be written: run pvsync as root; nothing was changed")
    return LabError(f"{file} cannot be written ({_why(error)}): nothing was changed")


def _why(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else "it is no text"
