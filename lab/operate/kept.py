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
import re
from collections.abc import Iterator, Mapping
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
MOST = 1 << 20
"""Bytes of a file of settings."""
ROW = 'mark = "exit"'
LINE = re.compile(r"\(at line (\d+),")
"""In what TOML's parser says."""
LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
LOOKS, PAUSE_S = 100, 0.1
"""How often, and how far apart, to look whether another one has the lock."""
Settings = dict[str, str]
"""Names in the VM's folder of debugfs, to values."""


def read(file: Path) -> dict[str, Settings]:
    """VM to its settings, none without the file; LabError for what is not to be trusted."""
    with _trusted(file):
        found = _parsed(_text(file) or "", f"lines are such as [web], and below it {ROW}")
        return {name: _settings(f"{name}.", _table(name, table)) for name, table in found.items()}


def read_host(file: Path) -> Settings:
    """The host's settings; LabError without the file, or for what is not to be trusted."""
    with _trusted(file):
        text = _text(file)
        if text is None:
            raise LabError(f"there is no {file}: write lines such as {ROW} into it")
        found = _parsed(text, f"a line is such as {ROW}")
        for name, value in found.items():
            if isinstance(value, dict) or (isinstance(value, list) and value
                                           and all(isinstance(one, dict) for one in value)):
                raise DecodeError(f"take the lines [{name}] out, as this file has no tables")
        return _settings("", found)


def _table(name: str, value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise DecodeError(f"'{name}' must be a table: write a line such as [web], with the name of"
                          " the virtual machine, above it")
    return value


def _parsed(text: str, such: str) -> dict[str, object]:
    """TOML; the refusal has the line that is wrong, and how lines are."""
    try:
        return read_toml(text)
    except DecodeError as error:
        at = LINE.search(str(error))
        lines = text.splitlines()
        line = lines[int(at[1]) - 1].strip()[:60] if at and int(at[1]) <= len(lines) else ""
        where = f", in '{line}'" if line.isprintable() and line else ""
        raise DecodeError(f"{error}{where}, where {such}") from None


def _text(file: Path) -> str | None:
    try:
        return files.text(file, MOST)
    except FileNotFoundError:
        return None
    except PermissionError:
        raise LabError(f"{file} cannot be read: run pvsync as root") from None
    except files.UnfitError as error:
        raise LabError(f"{file} cannot be read ({error}): remove it, or name another one with"
                       " --file") from None
    except OSError as error:
        raise LabError(f"{file} cannot be read ({_why(error)})") from None


@contextmanager
def _trusted(file: Path) -> Iterator[None]:
    try:
        yield
    except DecodeError as error:
        raise LabError(f"{file}: {error}: correct it, or remove the file") from None


def _settings(whose: str, table: Mapping[str, object]) -> Settings:
    for key, value in table.items():
        if not key.isprintable():
            raise DecodeError(f"{key!r} is no name of a setting")
        if type(value) not in {str, int} or not str(value).isprintable():
            raise DecodeError(f"{whose}{key} must be a string or an integer:"
                              f" write {_better(key, value)}")
        if value == "":
            raise DecodeError(f"{whose}{key} has no value")
    return {key: str(value) for key, value in table.items()}


def _better(key: str, value: object) -> str:
    """What to write in place of a value of a wrong type."""
    if isinstance(value, bool):
        return (f'{key} = "{"Y" if value else "N"}" for a switch that is {"on" if value else "off"}'
                ', else a value in quotes such as "exit"')
    return f'{key} = "VALUE"'


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
    read(file)  # beside what is no file of settings no lock is made
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
        for one in torn(file):
            one.unlink(missing_ok=True)
        yield
    finally:
        os.close(lock)


def torn(file: Path) -> list[Path]:
    """What writers have left beside a file that were killed."""
    return list(file.parent.glob(f".{file.name}.*[0-9]"))


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


def _why(error: OSError) -> str:
    return error.strerror or str(error)
