# SPDX-License-Identifier: GPL-2.0-only
"""What `pvsync set`, `show`, `reset` and `apply` do. Each returns lines to print."""

from collections.abc import Mapping
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from lab.core.errors import LabError, UsageError
from lab.observe import vms
from lab.observe.vms import Vm
from lab.operate import kept, settings
from lab.operate.host_parameters import Record
from lab.operate.kept import Settings
from lab.operate.settings import GLOBAL, Host


@dataclass(frozen=True)
class Shown:
    """A VM: what it has of its own, and what is kept for it."""

    name: str
    number: str
    """Proxmox's; empty elsewhere."""
    runs: bool
    own: Settings
    kept: Settings
    wrong: str = ""
    """Why what it has of its own may not be read."""


def _running(host: Host) -> list[Vm]:
    return vms.find(host.debugfs, host.proc)


def _key(known: Mapping[str, Settings], vm: Vm, word: str) -> str:
    """What a VM is called in the file: as there already, else as the user does."""
    return next((key for key in (vm.name, vm.number) if key in known), word)


def change(host: Host, file: Path, word: str, wanted: Settings) -> list[str]:
    """Set and keep; a value of GLOBAL follows the host again. All of it happens, or nothing."""
    vm = settings.one(_running(host), word)
    settings.check(host, vm, wanted)
    with kept.locked(file) as known:
        key = _key(known, vm, word)
        have = known.get(key, {}) | wanted
        left = {name: value for name, value in have.items() if value != GLOBAL}
        new = {**known, key: left} if left else {k: v for k, v in known.items() if k != key}
        with settings.held(host, vm), settings.Writes(host) as writes, \
                kept.replaced(file, kept.text_of(new)):
            for name, value in wanted.items():
                writes.write(vm, name, value)
    try:
        return [f"{vm.name}: {_line(settings.own(host, vm))}"]
    except settings.EndedError:
        return [f"{vm.name} has ended meanwhile; kept for its next start: {_line(left)}"]


def reset(host: Host, file: Path, word: str | None) -> list[str]:
    """Have a VM, or all of them, follow the host again, and keep nothing for it.

    The settings of one that ends meanwhile end with it. Without anything kept, no file is written.
    """
    running = _running(host)
    with kept.locked(file) as known:
        if word is None:
            found, keys = running, set(known)
        else:
            found = [settings.one(running, word)] if settings.match(running, word) else []
            called = {word, *(one for vm in found for one in (vm.name, vm.number))}
            keys = called & set(known)
        if word is not None and not found and not keys:
            settings.one(running, word)
        said, followed = [], set()
        left = {key: value for key, value in known.items() if key not in keys}
        with ExitStack() as holds, settings.Writes(host) as writes, \
                kept.replaced(file, kept.text_of(left)) if keys else nullcontext():
            for vm in found:
                with suppress(settings.EndedError):
                    own = _follow(host, vm, holds, writes)
                    said += [f"{vm.name}: {_line(own)}: taken back"] if own else []
                    followed |= {vm.name, vm.number} if own else set()
        said += [f"{key}: nothing is kept for it any more" for key in sorted(keys - followed)]
    return said or ["nothing was set"]


def _follow(host: Host, vm: Vm, holds: ExitStack, writes: settings.Writes) -> Settings:
    """Have a VM follow the host again; what it had of its own."""
    if not settings.there(host, vm):
        return {}
    holds.enter_context(settings.held(host, vm))
    own = settings.own(host, vm)
    for name in own:
        writes.write(vm, name, GLOBAL)
    return own


def apply(host: Host, file: Path, word: str | None) -> tuple[list[str], list[str]]:
    """Have VMs that run get what is kept for them; what was done, and what could not be."""
    if not kept.read(file):
        return ["nothing is kept for any virtual machine"], []
    with kept.locked(file) as known:  # what is reset meanwhile would come back, kept by nobody
        return _apply(host, known, word)


def _apply(host: Host, known: Mapping[str, Settings],
           word: str | None) -> tuple[list[str], list[str]]:
    running = _running(host)
    chosen = running if word is None else settings.match(running, word)
    if word is not None and not chosen:
        settings.one(running, word)
    done, wrong = [], []
    for key, wanted in known.items():
        found = settings.match(chosen, key)
        if not found and word is None:
            done.append(f"{key}: does not run")
        elif found:
            try:
                vm = settings.one(running, key)
                settings.check(host, vm, wanted)
                with settings.held(host, vm), settings.Writes(host) as writes:
                    for name, value in wanted.items():
                        writes.write(vm, name, value)
                done.append(f"{vm.name}: {_line(wanted)}")
            except settings.EndedError:
                done.append(f"{key}: has ended meanwhile")
            except LabError as error:
                wrong.append(f"{key}: {error}")
    return done, wrong


def show(host: Host, file: Path, word: str | None) -> list[Shown]:
    """VMs that run, or for which something is kept."""
    known = kept.read(file)
    running = _running(host)
    if word is not None and word not in known:
        settings.one(running, word)
    found, keys = [], set()
    for vm in running:
        own, wrong = {}, ""
        try:
            own = settings.own(host, vm) if settings.there(host, vm) else {}
        except LabError as error:
            if not vm.folder.is_dir():
                continue  # it has ended meanwhile
            wrong = str(error)
        key = _key(known, vm, vm.name)
        keys.add(key)
        found.append(Shown(vm.name, vm.number, True, own, known.get(key, {}), wrong))
    found += [Shown(key, "", False, {}, known[key]) for key in known if key not in keys]
    chosen = [one for one in found if word is None or word in {one.name, one.number}]
    if word is not None and not chosen:
        raise UsageError(f"no virtual machine is called '{word}'")
    return sorted(chosen, key=lambda one: one.name)


def lines(shown: list[Shown], of_host: Settings, by: Record | None = None) -> list[str]:
    """For a terminal; every line fits into 60 columns but for long names.

    `by` is who has set parameters of the host.
    """
    said = []
    if of_host:
        said.append("All virtual machines, unless they have their own:")
        for name, value in of_host.items():
            said.append(f"  {name}={value}")
            if by and name in by.before:
                after = by.after.get(name, value)
                said.append(f"    {by.file} set {by.after.get(name, 'it')}, was {by.before[name]}"
                            f"{'' if after == value else '; changed since'}")
    else:
        said.append("This kernel has no pvsync: nothing can be set.")
    if not shown:
        said.append("No VM runs under KVM here; nothing is kept for any.")
    for one in shown:
        number = f" ({one.number})" if one.number else ""
        said.append(f"{one.name}{number}{'' if one.runs else ': does not run'}")
        said += ["  may not be read"] if one.wrong else [
            _setting(one, name) for name in sorted({*one.own, *one.kept})]
        if one.runs and not one.own and not one.kept and not one.wrong:
            said.append("  as all")
    return said


def _setting(one: Shown, name: str) -> str:
    """A setting that a VM has of its own, or that is kept for it."""
    now, later = one.own.get(name), one.kept.get(name)
    if not one.runs:
        return f"  {name}={later} when it starts"
    if now is not None and later is not None and settings.same(now, later):
        return f"  {name}={now}"
    if later is None:
        return f"  {name}={now} until it ends"
    return f"  {name}={now or GLOBAL}; kept: {later} (`pvsync apply`)"


def _line(values: Settings) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items()) or "as all"
