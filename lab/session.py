# SPDX-License-Identifier: GPL-2.0-only
"""One boot of the host: its guests, and the runs that they make together.

All guests of all schemes stay up; those that are not in a run are stopped by
their QEMU, so they cost nothing. A guest that fails is ended and booted again
before the next run that needs it. HostLost leaves this module: the host is
the runner's to boot again.
"""

import base64
import contextlib
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from lab import (
    console,
    disturb,
    in_force,
    kconfig,
    observed,
    parameters,
    records,
    stalls,
    windows,
)
from lab.control import Answer, HostLost, Refused
from lab.errors import LabError
from lab.guest import GuestSpec, guest_command, guest_folder, guest_group
from lab.machine import HostSpec, Machine, guest_disks
from lab.model import BootRecord, Experiment, GuestRun, RunRecord, Scheme, Workload
from lab.schedule import MIN_OVERLAP, PlannedRun, overlap

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


def guest_memory(experiment: Experiment) -> int:
    """MiB of each guest, with what the kernel of any needs more than others."""
    more = max(kconfig.variant(name).memory for name in experiment.guest_variants())
    return experiment.guest_mem + more


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
    trouble: str = ""


class Session:
    """A host that is up. Use as a context manager; `open` boots it."""

    def __init__(self, experiment: Experiment, spec: HostSpec, number: int, out: Path,
                 record: Callable[[BootRecord], None], note: Note) -> None:
        self.experiment = experiment
        self.spec = spec
        self.number = number
        self.out = out
        self.logs = out / "boots" / str(number)
        self.machine = Machine(spec, self.logs)
        self._record = record
        self._note = note
        self._live: dict[str, Live] = {}
        self._schemes = {s.label or s.name: s for s in experiment.schemes}
        variants = (*experiment.guest_variants(), experiment.host_variant or experiment.variant)
        slowdown = max(kconfig.variant(name).slowdown for name in variants)
        self._workloads = {w.name: replace(w, timeout_s=w.timeout_s * slowdown)
                           for w in experiment.workloads}
        self._slowdown = slowdown
        self._boot_limit = BOOT_LIMIT * slowdown
        self._vcpu_limit = VCPU_LIMIT * slowdown
        self._settle = SETTLE * slowdown
        self._restore_limit = disturb.RESTORE_LIMIT * slowdown
        self._parameters = parameters.Parameters()
        self._groups = False
        self.dropped = 0
        """Guests that failed in runs of this boot."""
        local = spec.backend == "local"
        self._work = PurePosixPath(self.machine.run) if local else HOST_WORK
        self._qemu = spec.emulator if local else HOST_QEMU
        self._files = guest_files(spec)

    # The host

    def open(self) -> None:
        """Boot the host; raises HostLost."""
        self._note("booting the host")
        hello = self.machine.start(self._boot_limit)
        if not hello.get("kvm"):
            raise LabError("the host came up without KVM: its CPU has no usable svm or vmx")
        self._groups = bool(hello.get("cgroups"))
        if not self._groups:
            self._note("guests share the CPUs without groups: no cgroup 2 with the cpu controller")
        trouble = self.machine.trouble()
        if trouble:
            raise HostLost(trouble)
        if self.spec.backend != "local":
            for place, one in enumerate(self.spec.guests):
                self.machine.control.call(
                    "copy", source=guest_disks(place)[1], path=str(self._files[one.variant][0]),
                    size=one.kernel.stat().st_size)

    def close(self, reason: str = "") -> None:
        """End everything and record how the boot went; `reason` says what was wrong."""
        try:
            for name in list(self._live) if not reason else ():
                self._retire(name)
        except LabError as error:
            reason = str(error)
        reason = reason or self.machine.trouble()
        if reason:
            self.machine.post_mortem()
        self.machine.stop(polite=not reason)
        self._record(BootRecord(self.number, "", "", not reason, reason, self.machine.seconds))

    def abort(self) -> None:
        """End everything at once, without a record: the user stopped the lab."""
        self.machine.stop(polite=False)

    # Guests

    def boot_all(self) -> None:
        """Boot every guest of the experiment, as many at a time as there are CPUs."""
        owners = dict.fromkeys(map(self.experiment.owner, self._schemes))
        names = [(label, i) for i in range(max(self.experiment.vms)) for label in owners]
        for at in range(0, len(names), self.spec.pcpus):
            batch = names[at:at + self.spec.pcpus]
            self._note(f"booting guests {at + 1}-{at + len(batch)} of {len(names)}")
            self._boot(batch)

    def _boot(self, wanted: Iterable[tuple[str, int]]) -> None:
        """Boot those of (label, index) that are not up, all at the same time."""
        waiting: list[tuple[str, float, Future[Answer]]] = []
        self.machine.control.call("switch", run=[])
        for label, index in wanted:
            name = guest_name(label, index)
            if name in self._live:
                continue
            scheme = self._schemes[label]
            limit = self._limit_of(scheme)
            spec = GuestSpec(name, self.experiment.vcpus, guest_memory(self.experiment),
                             scheme.boot_args(index), scheme.cpu)
            kernel, image = self._files.get(scheme.variant, self._files[""])
            argv = guest_command(self._qemu, spec, kernel, image, self._work)
            group = guest_group(name) if self._groups else ""
            waiting.append((name, limit, self.machine.control.submit(
                "start", name=name, argv=argv, cgroup=group, timeout=limit)))
            self._live[name] = Live(spec, label, limit)
        for name, limit, future in waiting:
            try:
                answer = self._booted(name, future, limit)
                if self.experiment.pin:
                    self.machine.control.call("pin", name=name)
            except Refused as refusal:
                self._drop(name, self._look(name) or str(refusal))
                continue
            live = self._live[name]
            live.seconds, live.folder = float(answer["seconds"]), str(answer["folder"])
        self.machine.control.call("switch", run=[])

    def _limit_of(self, scheme: Scheme) -> float:
        """Seconds for the boot of a guest."""
        return scheme.boot_s * self._slowdown or (
            self._boot_limit + self._vcpu_limit * self.experiment.vcpus)

    def _booted(self, name: str, future: Future[Answer], limit: float) -> Answer:
        """What the host says of a boot; Refused as soon as the guest's console tells of a fault.

        A kernel that has one may hang, and the limit is made for slow machines. Nobody looks at a
        host that stands still while the lab does.
        """
        left = limit
        while left > 0 and not self.machine.control.steered and not wait_for([future], LOOK_S).done:
            left -= LOOK_S
            if trouble := self._look(name):
                self._live[name].seconds = limit - left
                raise Refused(trouble)
        return self.machine.control.wait(future, left + self._settle, f"boot {name}")

    def _look(self, name: str) -> str:
        """Read the rest of a guest's console, keep it, say what is wrong with it."""
        live = self._live[name]
        path = guest_folder(self._work, name) / "console"
        data = self.machine.control.read_file(str(path), live.read)
        if data:
            live.read += len(data)
            with (self.logs / f"guest-{name}.console.log").open("ab") as log:
                log.write(data)
            found, live.tail = console.follow(live.tail, data)
            if found and not live.trouble:
                live.trouble = f"the console of guest {name} says: {found[0].text}"
        return live.trouble

    def _post_mortem(self, name: str) -> None:
        """Keep the CPUs' state of a guest in trouble, read four times."""
        text = ""
        with contextlib.suppress(Refused):
            for line in ("info registers -a", "info lapic", "info registers -a") * 2:
                answer = self.machine.control.call(
                    "qmp", name=name, command="human-monitor-command",
                    arguments={"command-line": line}, timeout=10)
                text += f"{answer['return']}\n"
        if text:
            (self.logs / f"guest-{name}.cpus.txt").write_text(text)

    def _drop(self, name: str, reason: str) -> None:
        """End a guest that failed; the next run that needs it boots it again."""
        live = self._live.pop(name)
        with contextlib.suppress(Refused):
            self.machine.control.call("kill", name=name)
        self._record(BootRecord(self.number, name, live.scheme, False, reason, live.seconds))

    def _retire(self, name: str) -> None:
        """End of a good guest's life: keep its log, record that it went well."""
        control = self.machine.control
        try:
            control.call("switch", run=[name])
            answer = control.call("dmesg", name=name, tag="end", timeout=self._settle)
            text = base64.b64decode(answer["out"])
            (self.logs / f"guest-{name}.dmesg.txt").write_bytes(text)
            found = console.scan(text)
            if found:
                raise Refused(f"the log of guest {name} says: {found[0].text}")
        except Refused as refusal:
            self._drop(name, self._look(name) or str(refusal))
            return
        if self._look(name):
            self._drop(name, self._live[name].trouble)
            return
        self._end(name)

    def _end(self, name: str) -> None:
        """End a guest that was well; the next run that needs it boots it again."""
        live = self._live.pop(name)
        self.machine.control.call("kill", name=name)
        self._record(BootRecord(self.number, name, live.scheme, True, "", live.seconds))

    # Runs

    def run(self, planned: PlannedRun, attempt: int) -> RunRecord:
        """Make one try at a run; raises HostLost, and nothing else for what guests do."""
        scheme, workload = self._schemes[planned.scheme], self._workloads[planned.workload]
        owner = self.experiment.owner(planned.scheme)
        names = [guest_name(owner, i) for i in range(planned.vms)]
        try:
            self._boot((owner, i) for i in range(planned.vms))
            absent = [name for name in names if name not in self._live]
            if absent:
                return self.invalid(planned, attempt, f"guest {absent[0]} did not boot")
            self._parameters.apply(self.machine.control, scheme, names)
            self._setup(names, workload)
            self.machine.control.call("switch", run=names)
            if wrong := self._not_in_force(scheme, names):
                return self.invalid(planned, attempt, wrong)
            self._snapshot(names, planned.run_id(attempt), "before")
            with stalls.watch(self.spec.backend) as watch:
                answer = self.machine.control.call(
                    "round", guests=names, tag=planned.run_id(attempt), command=workload.command,
                    neighbour=workload.neighbour, timeout=workload.timeout_s, settle=self._settle,
                    patience=2 * self._settle, **self._meanwhile(names, planned.run_id(attempt)))
            self._keep(names, planned.run_id(attempt), answer)
            if not any(note["error"] for note in answer["guests"].values()):
                left = [name for name in names if "killed" not in answer["guests"][name]]
                self._snapshot(left, planned.run_id(attempt), "after")
                wrong = self._not_in_force(scheme, left)
            self.machine.control.call("switch", run=[])
        except Refused as refusal:
            for name in names:
                if name in self._live:
                    self._drop(name, self._look(name) or str(refusal))
            return self.invalid(planned, attempt, str(refusal))
        record = self._judge(planned, attempt, names, answer)
        if wrong and record.valid:
            record = replace(record, valid=False, reason=wrong)
        return replace(record, stalled=watch.stalled)

    def _setup(self, names: list[str], workload: Workload) -> None:
        """What a guest goes through once for a workload: its setup, one unmeasured run.

        When the experiment observes, the guest counts from here on.
        """
        fresh = [name for name in names if workload.name not in self._live[name].prepared]
        if not fresh:
            return
        control = self.machine.control
        control.call("switch", run=fresh)
        steps = []
        if self.experiment.observe:
            new = [name for name in fresh if not self._live[name].prepared]
            switch = observed.switch_on(self.experiment.observe)
            steps.append(("the start of the counting", new, switch, self._settle))
        if workload.setup:
            what = f"the setup of {workload.name}"
            steps.append((what, fresh, workload.setup, workload.timeout_s))
        for what, where, command, limit in steps:
            for name, answer in self._everywhere(where, "setup", command, limit).items():
                if answer["status"] != 0:
                    text = base64.b64decode(answer["out"]).decode(errors="replace").strip()
                    raise Refused(f"{what} failed in guest {name}"
                                  f" with status {answer['status']}: {text[-200:]}")
        if self.experiment.reps > 1:
            answer = control.call(
                "round", guests=fresh, tag="warm", command=workload.command, repeat=False,
                timeout=workload.timeout_s, settle=self._settle, patience=2 * self._settle)
            for note in answer["guests"].values():
                if note["error"]:
                    raise Refused(note["error"])
        for name in fresh:
            self._live[name].prepared.add(workload.name)

    def _everywhere(self, names: list[str], tag: str, command: str,
                    limit: float) -> dict[str, Answer]:
        """Run a command in these guests at once; Refused when one does not end it in `limit`."""
        control = self.machine.control
        waiting = [(name, control.submit("guest_exec", name=name, tag=tag, command=command,
                                         timeout=limit)) for name in names]
        return {name: control.wait(future, limit + self._settle, f"run the {tag} command in {name}")
                for name, future in waiting}

    def _snapshot(self, names: list[str], run_id: str, when: str) -> None:
        """Keep the counters of these guests and of the host, if the experiment observes."""
        if not self.experiment.observe:
            return
        control = self.machine.control
        if when == "before" and control.read_file(observed.VCPU_STAT):
            control.write_file(observed.VCPU_STAT, "1")
        command = observed.guest_snapshot(self.experiment.observe, when)
        answers = self._everywhere(names, when, command, self._settle)
        read = observed.host_snapshot({name: self._live[name].folder for name in names}, when)
        answers[observed.HOST] = control.call(
            "exec", argv=["sh", "-c", read], timeout=self._settle)
        folder = self.out / "raw" / run_id
        folder.mkdir(parents=True, exist_ok=True)
        for name, answer in answers.items():
            file = folder / observed.file_name(name, when)
            records.write(file, base64.b64decode(answer["out"]))

    def _meanwhile(self, names: list[str], run_id: str) -> Answer:
        """What a round is asked for besides: windows, and what disturbs the guests."""
        asked: Answer = {}
        if self.experiment.window_ms:
            files = [[file, what] for name in names for file, what in (
                (observed.cpu_file(name), windows.USED),
                (observed.vm_file(self._live[name].folder), windows.GRANTED))]
            asked["watch"] = {"files": files, "interval": self.experiment.window_ms / 1e3}
        if self.experiment.disturb:
            folder = parameters.PARAMETERS.format(module="pvsync")
            asked["disturb"] = disturb.request(self.experiment, run_id, names, folder,
                                                self._restore_limit)
        return asked

    def _keep(self, names: list[str], run_id: str, answer: Answer) -> None:
        """Write what a round has noted besides, and where its guests are now."""
        for name in names:
            self._live[name].folder = answer["guests"][name].get("folder", self._live[name].folder)
        folder = self.out / "raw" / run_id
        for file, text in ((windows.FILE, windows.as_text(names, answer["samples"])
                            if answer["samples"] else ""),
                           (disturb.FILE, disturb.as_text(answer["disturbed"]))):
            if text:
                folder.mkdir(parents=True, exist_ok=True)
                records.write(folder / file, text.encode())

    def _not_in_force(self, scheme: Scheme, names: list[str]) -> str:
        """Why these guests and their host are not what is to be measured, or nothing."""
        changed = in_force.TAKEN_BACK if "offers" in self.experiment.disturb else ()
        if not {"parameters", "offers"} & {*self.experiment.disturb}:
            folders = {name: self._live[name].folder for name in names}
            if wrong := self._parameters.wrong(self.machine.control, scheme, folders):
                return wrong
        told = self._everywhere(names, "in-force", in_force.COMMAND, self._settle)
        for name in names:
            arguments = self._live[name].spec.args
            asked = in_force.wanted(arguments, self.experiment.vcpus, scheme.expect)
            text = base64.b64decode(told[name]["out"]).decode(errors="replace")
            wrong = in_force.reason(name, in_force.mismatches(asked, text, changed)
                                    if in_force.tells(scheme.variant or self.experiment.variant)
                                    else in_force.unknown(arguments))
            if wrong:
                return wrong
        return ""

    def _judge(self, planned: PlannedRun, attempt: int, names: list[str],
               answer: Answer) -> RunRecord:
        """The record of a round, with outputs written; guests that failed are dropped."""
        folder = Path("raw") / planned.run_id(attempt)
        (self.out / folder).mkdir(parents=True, exist_ok=True)
        guests, reasons = [], []
        for name in names:
            note = answer["guests"][name]
            file = folder / f"{name}.out"
            records.write(self.out / file, base64.b64decode(note.get("out", "")))
            guests.append(GuestRun(name, note.get("began"), note.get("ended"),
                                   note.get("elapsed"), note.get("status"), str(file)))
            trouble = self._look(name) or note["error"]
            if trouble:
                self._post_mortem(name)
                self._drop(name, trouble)
                self.dropped += 1
                reasons.append(trouble)
            elif "killed" in note:
                self._end(name)
            elif note.get("status"):
                reasons.append(f"the command ended with status {note['status']} in guest {name}")
            elif note.get("worst"):
                reasons.append(f"the command ended with status {note['worst']} in guest {name}"
                               " when it ran again as load")
        host = self.machine.trouble()
        if host:
            raise HostLost(host)
        share = overlap(one for one in guests if "killed" not in answer["guests"][one.guest])
        if share < MIN_OVERLAP:
            reasons.append(f"only {share:.0%} of the measured time was overlapped")
        done = disturb.counted(answer["disturbed"])
        reasons.append(disturb.lacking(self.experiment, done))
        record = self._run_record(planned, attempt, reasons[0], tuple(guests), share)
        return replace(record, disturbed=done)

    def invalid(self, planned: PlannedRun, attempt: int, reason: str) -> RunRecord:
        """The record of a run that did not come about."""
        return self._run_record(planned, attempt, reason, (), 0.0)

    def _run_record(self, planned: PlannedRun, attempt: int, reason: str,
                    guests: tuple[GuestRun, ...], share: float) -> RunRecord:
        return RunRecord(
            id=planned.run_id(attempt), boot=self.number, rep=planned.rep, attempt=attempt,
            scheme=planned.scheme, workload=planned.workload, vms=planned.vms,
            vcpus=self.experiment.vcpus, pcpus=self.experiment.pcpus, valid=not reason,
            reason=reason, guests=guests, overlap=share,
            seed=self.spec.seed if self.spec.backend == "vt" else None)
