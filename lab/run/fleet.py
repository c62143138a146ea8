# SPDX-License-Identifier: GPL-2.0-only
"""The guests of one host: they boot, are looked at, and end.

All guests of all schemes stay up; those that are not in a run are stopped by
their QEMU, so they cost nothing. A guest that fails is ended and booted again
before the next run that needs it.
"""

import base64
import contextlib
import random
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from lab.core.model import Backend, BootRecord, Experiment, Scheme
from lab.machine import console
from lab.machine.control import Answer, Refused
from lab.machine.guest import GuestSpec, clock_args, guest_command, guest_folder, guest_group
from lab.machine.machine import HostSpec, Machine, guest_disks
from lab.plan import kconfig

BOOT_LIMIT = 120.0
"""Seconds for the host's boot, and for that of a guest, besides:"""
VCPU_LIMIT = 15.0
"""Seconds more for each of a guest's vCPUs."""
LOOK_S = 5.0
"""How often to look at the console of a guest that boots: one that is well takes less."""
SETTLE = 30.0
"""Seconds for the guests to get ready, and for them to stop."""
HOST_WORK = PurePosixPath("/run/pvsync")
HOST_QEMU = ("/usr/bin/qemu-system-x86_64",)

Note = Callable[[str], None]


def guest_name(label: str, index: int) -> str:
    """Name of the scheme's guest number `index`, fit for a file name."""
    return f"{label.replace(':', '~')}-{index}"


def boot_order(labels: Iterable[str], vms: int, seed: int | None) -> list[tuple[str, int]]:
    """Label and index of each guest, in the order in which they boot.

    In virtual time that is another one for each seed. Which guests boot side by side decides
    how their vCPUs lie to each other later: in one order two guests with ticket locks took four
    times as long under each of three seeds as two others with the same settings.
    """
    names = [(label, index) for index in range(vms) for label in labels]
    if seed is not None:
        random.Random(seed).shuffle(names)
    return names


def guest_memory(experiment: Experiment) -> int:
    """MiB of each guest, with what the kernel of any needs more than others."""
    more = max(kconfig.variant(name).memory for name in experiment.guest_variants())
    return experiment.guest_mem + more


def owners(experiment: Experiment) -> list[str]:
    """Labels of the schemes that have guests of their own, in order."""
    return list(dict.fromkeys(experiment.owner(s.label or s.name) for s in experiment.schemes))


def guest_spec(experiment: Experiment, scheme: Scheme, label: str, index: int,
               backend: Backend) -> GuestSpec:
    """Number `index` of the guests of the scheme with this label."""
    return GuestSpec(guest_name(label, index), experiment.vcpus, guest_memory(experiment),
                     (*clock_args(scheme.cpu, backend), *scheme.boot_args(index)), scheme.cpu)


def guest_files(spec: HostSpec) -> dict[str, tuple[PurePosixPath, PurePosixPath]]:
    """Kernel and root by the variant of `HostSpec.guests`, as the host names them."""
    if spec.backend == "local":
        return {one.variant: (PurePosixPath(one.kernel), PurePosixPath(one.image))
                for one in spec.guests}
    return {one.variant: (HOST_WORK / f"bzImage{one.variant}", PurePosixPath(guest_disks(place)[0]))
            for place, one in enumerate(spec.guests)}


@dataclass
class Live:
    """A guest that is up, or boots."""

    spec: GuestSpec
    scheme: str
    seconds: float
    folder: str = ""
    """Its virtual machine's folder in the host's debugfs; empty when there is none."""
    read: int = 0
    """Bytes of its console that were read."""
    tail: bytes = b""
    """The last of them, of a line that had no end yet."""
    prepared: set[str] = field(default_factory=set)
    """Workloads whose setup it went through."""
    told: str = ""
    """What it said is in force when it last ran; empty from when it runs a workload on."""
    trouble: str = ""


class Fleet:
    """The guests of a host that is up."""

    def __init__(self, experiment: Experiment, spec: HostSpec, number: int, machine: Machine,
                 record: Callable[[BootRecord], None], note: Note) -> None:
        self.experiment = experiment
        self.spec = spec
        self.machine = machine
        self.live: dict[str, Live] = {}
        self.groups = False
        """Whether each has a group of its own for its CPU time."""
        self._number = number
        self._logs = machine.logs
        self._record = record
        self._note = note
        self._schemes = {s.label or s.name: s for s in experiment.schemes}
        variants = (*experiment.guest_variants(), experiment.host_variant or experiment.variant)
        self.slowdown = max(kconfig.variant(name).slowdown for name in variants)
        """Of the slowest kernel: all limits are so many times as long."""
        self.boot_limit = BOOT_LIMIT * self.slowdown
        self.settle = SETTLE * self.slowdown
        local = spec.backend == "local"
        self._work = PurePosixPath(machine.run) if local else HOST_WORK
        self._qemu = spec.emulator if local else HOST_QEMU
        self._files = guest_files(spec)

    def bring_kernels(self) -> None:
        """Have each guest's kernel as a file in the host, which has them as disks."""
        if self.spec.backend == "local":
            return
        for place, one in enumerate(self.spec.guests):
            self.machine.control.call(
                "copy", source=guest_disks(place)[1], path=str(self._files[one.variant][0]),
                size=one.kernel.stat().st_size)

    def boot_all(self) -> None:
        """Boot every guest of the experiment, as many at a time as there are CPUs."""
        seed = self.spec.seed if self.spec.backend == "vt" else None
        names = boot_order(owners(self.experiment), max(self.experiment.vms), seed)
        for at in range(0, len(names), self.spec.pcpus):
            batch = names[at:at + self.spec.pcpus]
            self._note(f"booting guests {at + 1}-{at + len(batch)} of {len(names)}")
            self.boot(batch)

    def boot(self, wanted: Iterable[tuple[str, int]]) -> None:
        """Boot those of (label, index) that are not up, all at the same time."""
        waiting: list[tuple[str, float, Future[Answer]]] = []
        self.machine.control.call("switch", run=[])
        for label, index in wanted:
            name = guest_name(label, index)
            if name in self.live:
                continue
            scheme = self._schemes[label]
            limit = self._limit_of(scheme)
            spec = guest_spec(self.experiment, scheme, label, index, self.spec.backend)
            kernel, image = self._files.get(scheme.variant, self._files[""])
            argv = guest_command(self._qemu, spec, kernel, image, self._work)
            group = guest_group(name) if self.groups else ""
            waiting.append((name, limit, self.machine.control.submit(
                "start", name=name, argv=argv, cgroup=group, timeout=limit)))
            self.live[name] = Live(spec, label, limit)
        for name, limit, future in waiting:
            try:
                answer = self._booted(name, future, limit)
                if self.experiment.pin:
                    self.machine.control.call("pin", name=name)
            except Refused as refusal:
                self.drop(name, self.look(name) or str(refusal))
                continue
            live = self.live[name]
            live.seconds, live.folder = float(answer["seconds"]), str(answer["folder"])
        self.machine.control.call("switch", run=[])

    def known(self) -> list[dict[str, Any]]:
        """What `adopt` needs of the guests that are up, for JSON."""
        return [{"label": live.scheme, "index": int(name.rpartition("-")[2]),
                 "seconds": live.seconds, "folder": live.folder}
                for name, live in self.live.items()]

    def adopt(self, known: Iterable[Mapping[str, Any]]) -> None:
        """Take over guests that a host has which was loaded."""
        for one in known:
            label, index = str(one["label"]), int(one["index"])
            spec = guest_spec(self.experiment, self._schemes[label], label, index,
                              self.spec.backend)
            self.live[spec.name] = Live(spec, label, float(one["seconds"]), str(one["folder"]))

    def _limit_of(self, scheme: Scheme) -> float:
        """Seconds for the boot of a guest."""
        return scheme.boot_s * self.slowdown or (
            self.boot_limit + VCPU_LIMIT * self.slowdown * self.experiment.vcpus)

    def _booted(self, name: str, future: Future[Answer], limit: float) -> Answer:
        """What the host says of a boot; Refused as soon as the guest's console tells of a fault.

        A kernel that has one may hang, and the limit is made for slow machines. Nobody looks at a
        host that stands still while the lab does.
        """
        left = limit
        while left > 0 and not self.machine.control.steered and not wait_for([future], LOOK_S).done:
            left -= LOOK_S
            if trouble := self.look(name):
                self.live[name].seconds = limit - left
                raise Refused(trouble)
        return self.machine.control.wait(future, left + self.settle, f"boot {name}")

    def look(self, name: str) -> str:
        """Read the rest of a guest's console, keep it, say what is wrong with it."""
        live = self.live[name]
        path = guest_folder(self._work, name) / "console"
        data = self.machine.control.read_file(str(path), live.read)
        if data:
            live.read += len(data)
            with (self._logs / f"guest-{name}.console.log").open("ab") as log:
                log.write(data)
            found, live.tail = console.follow(live.tail, data)
            if found and not live.trouble:
                live.trouble = f"the console of guest {name} says: {found[0].text}"
        return live.trouble

    def post_mortem(self, name: str) -> None:
        """Keep the CPUs' state of a guest in trouble, read four times."""
        text = ""
        with contextlib.suppress(Refused):
            for line in ("info registers -a", "info lapic", "info registers -a") * 2:
                answer = self.machine.control.call(
                    "qmp", name=name, command="human-monitor-command",
                    arguments={"command-line": line}, timeout=10)
                text += f"{answer['return']}\n"
        if text:
            (self._logs / f"guest-{name}.cpus.txt").write_text(text)

    def drop(self, name: str, reason: str) -> None:
        """End a guest that failed; the next run that needs it boots it again."""
        live = self.live.pop(name)
        with contextlib.suppress(Refused):
            self.machine.control.call("kill", name=name)
        self._record(BootRecord(self._number, name, live.scheme, False, reason, live.seconds))

    def retire(self, name: str) -> None:
        """End of a good guest's life: keep its log, record that it went well."""
        control = self.machine.control
        try:
            control.call("switch", run=[name])
            answer = control.call("dmesg", name=name, tag="end", timeout=self.settle)
            text = base64.b64decode(answer["out"])
            (self._logs / f"guest-{name}.dmesg.txt").write_bytes(text)
            found = console.scan(text)
            if found:
                raise Refused(f"the log of guest {name} says: {found[0].text}")
        except Refused as refusal:
            self.drop(name, self.look(name) or str(refusal))
            return
        if self.look(name):
            self.drop(name, self.live[name].trouble)
            return
        self.end(name)

    def end(self, name: str) -> None:
        """End a guest that was well; the next run that needs it boots it again."""
        live = self.live.pop(name)
        self.machine.control.call("kill", name=name)
        self._record(BootRecord(self._number, name, live.scheme, True, "", live.seconds))

    def everywhere(self, names: list[str], tag: str, command: str,
                    limit: float) -> dict[str, Answer]:
        """Run a command in these guests at once; Refused when one does not end it in `limit`."""
        control = self.machine.control
        waiting = [(name, control.submit("guest_exec", name=name, tag=tag, command=command,
                                         timeout=limit)) for name in names]
        return {name: control.wait(future, limit + self.settle, f"run the {tag} command in {name}")
                for name, future in waiting}
