# SPDX-License-Identifier: GPL-2.0-only
"""`pvsync apply --host` and `reset --host`: the host's parameters, set from a file and taken back.

What each was before is in a record under /run, on the disk before the first one is changed. So
`reset --host` takes back what a process has set that was killed, too. A reboot leaves neither.
"""

import errno
import json
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lab.core import files
from lab.core.decode import decode, read_json, suggest
from lab.core.errors import LabError, UsageError
from lab.observe import vms
from lab.operate import kept, settings
from lab.operate.kept import Settings
from lab.operate.settings import Host

RECORD = "host.json"


@dataclass(frozen=True)
class Record:
    """Who has set parameters, and what they were before."""

    file: str
    """Whose settings these are: a path."""
    before: Settings
    after: Settings = field(default_factory=dict)
    """What the kernel made of the settings; none while they are written."""


def apply(host: Host, file: Path) -> list[str]:
    """Set the host to what a file says, all or nothing; what the file dropped is taken back."""
    wanted = kept.read_host(file)
    _check(_now(host), wanted)
    record = host.run / RECORD
    _owned(host, file)  # in a folder that is not to be trusted no lock is made
    with kept.alone(record):
        old = _owned(host, file)
        before, now = old.before if old else {}, _now(host)
        goal = {**wanted, **{name: was for name, was in before.items()
                             if name not in wanted and name in now}}
        _keep(record, Record(str(file.absolute()),
                             {name: before.get(name, now[name]) for name in goal}))
        try:
            for name, value in goal.items():
                _put(host, name, value)
            there = settings.of_host(host)
            _keep(record, Record(str(file.absolute()),
                                 {name: before.get(name, now[name]) for name in wanted},
                                 {name: there[name] for name in wanted}))
        except BaseException as error:
            there = settings.of_host(host)
            left = _undo(host, {name: now[name] for name in goal
                                if there.get(name) != now[name]})
            if left and isinstance(error, LabError):
                raise LabError(f"{error}; not taken back: {'; '.join(left)}: try"
                               f" `pvsync reset --host --file {file}`") from None
            with suppress(LabError, OSError):
                if old and not left:
                    _keep(record, old)
                elif not left:
                    record.unlink()
            raise
    return [f"host: {_line(wanted)}"]


def reset(host: Host, file: Path) -> list[str]:
    """Have the host's parameters as before a file was applied; LabError if one cannot be."""
    record = host.run / RECORD
    if _owned(host, file) is None and not kept.torn(record):
        return ["nothing was set"]
    with kept.alone(record):
        old, now = _owned(host, file), settings.of_host(host)
        left = _undo(host, {name: was for name, was in old.before.items() if name in now}
                     if old else {})
        if left:
            raise LabError("not all could be taken back: " + "; ".join(left))
        record.unlink(missing_ok=True)
    return [f"host: {_line({name: now[name] for name in old.before if name in now})}: taken back"
            if old else "nothing was set"]


def differs(host: Host, file: Path) -> list[str]:
    """What the host has otherwise than a file says; LabError as of apply()."""
    wanted, now = kept.read_host(file), _now(host)
    _check(now, wanted)
    return [f"host: {name} is {now[name]}, not {value}" for name, value in wanted.items()
            if not settings.same(now[name], value)]


def _now(host: Host) -> Settings:
    found = settings.of_host(host)
    if not found:
        raise settings.no_pvsync(host)
    return found


def _check(known: Settings, wanted: Settings) -> None:
    for name in wanted:
        if name not in known:
            raise UsageError(f"this kernel has no parameter '{name}' of the host"
                             f"{suggest(name, list(known))} (known: {', '.join(known)})")


def _put(host: Host, name: str, value: str) -> None:
    try:
        settings.put(host, host.sys / settings.PARAMETERS, name, value)
    except OSError as error:
        file = host.sys / settings.PARAMETERS / name
        if error.errno == errno.EACCES and file.exists() and not file.stat().st_mode & 0o222:
            raise UsageError(f"{name} of the host can only be read: take it out of the file"
                             ) from None
        if error.errno in {errno.EPERM, errno.EACCES}:
            raise LabError(f"{name} of the host cannot be written: run pvsync as root") from None
        if error.errno == errno.EIO:
            raise UsageError(f"{name} of the host can only be read") from None
        raise LabError(f"{name} of the host: {error.strerror}") from None


def _undo(host: Host, before: Mapping[str, str]) -> list[str]:
    """Write values that were; what could not be, and why."""
    left = []
    with settings.undisturbed():
        for name, value in before.items():
            try:
                _put(host, name, value)
            except LabError as error:
                left.append(str(error))
    return left


def record_of(host: Host) -> Record | None:
    """The record, if there is one; LabError if it cannot be read, or others could write it."""
    record, looked = host.run / RECORD, host.run
    try:
        folder = host.run.lstat()
        if stat.S_ISLNK(folder.st_mode):
            raise files.UnfitError("it is a symlink")
        if not stat.S_ISDIR(folder.st_mode):
            raise files.UnfitError("it is no directory")
        files.check_ours(folder)
        looked = record
        return decode(Record, read_json(files.text(record, kept.MOST, ours=True)))
    except FileNotFoundError:
        return None
    except PermissionError:
        raise vms.denied(looked) from None
    except files.UnfitError as error:
        raise LabError(f"{looked} is not to be trusted ({error}): remove it as root; what was set"
                       " stays until the host boots") from None
    except (OSError, ValueError):
        raise LabError(f"{looked} cannot be read: remove it; what was set stays until the host"
                       " boots") from None


def _owned(host: Host, file: Path) -> Record | None:
    """The record, if there is one; LabError, also if another file's settings are in force."""
    found = record_of(host)
    if found is None:
        return None
    if found.file != str(file.absolute()):
        raise LabError(f"the host's parameters are set from {found.file}: first"
                       f" `pvsync reset --host --file {found.file}`; nothing was changed")
    return found


def _keep(record: Path, content: Record) -> None:
    with kept.replaced(record, json.dumps(asdict(content), indent=1) + "\n"):
        pass


def _line(values: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items()) or "as at boot"
