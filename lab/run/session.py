# SPDX-License-Identifier: GPL-2.0-only
"""One boot of the host: its guests, and the runs that they make together.

All guests of all schemes stay up; those that are not in a run are stopped by
their QEMU, so they cost nothing. A guest that fails is ended and booted again
before the next run that needs it. HostLost leaves this module: the host is
the runner's to boot again.
"""

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from lab.core import content
from lab.core.errors import LabError
from lab.core.model import BootRecord, Experiment, GuestRun, RunRecord, Scheme, Workload
from lab.machine.control import Answer, HostLost, Refused
from lab.machine.machine import HostSpec, Machine
from lab.observe import hung, marks, observed, stalls, windows
from lab.plan import in_force
from lab.plan.schedule import PlannedRun
from lab.run import disturb, judge, parameters, records
from lab.run.fleet import Fleet, Note, guest_name

GUESTS = "guests.json"
"""File of a host that was saved: which guests it has."""


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
        self.fleet = Fleet(experiment, spec, number, self.machine, record, note)
        self._record = record
        self._note = note
        self._schemes = {s.label or s.name: s for s in experiment.schemes}
        slowdown = self.fleet.slowdown
        self._workloads = {w.name: replace(w, timeout_s=w.timeout_s * slowdown)
                           for w in experiment.workloads}
        self._restore_limit = disturb.RESTORE_LIMIT * slowdown
        self._parameters = parameters.Parameters()
        self._tallies: dict[str, marks.Tally] = {}
        """What the guests had seen when it was last asked what is in force."""
        self.dropped = 0
        """Guests that failed in runs of this boot."""

    # The host

    def open(self) -> None:
        """Boot the host; raises HostLost."""
        self._note("booting the host")
        hello = self.machine.start(self.fleet.boot_limit)
        if not hello.get("kvm"):
            raise LabError("the host came up without KVM: its CPU has no usable svm or vmx")
        self.fleet.groups = bool(hello.get("cgroups"))
        if not self.fleet.groups:
            self._note("guests share the CPUs without groups: no cgroup 2 with the cpu controller")
        trouble = self.machine.trouble()
        if trouble:
            raise HostLost(trouble)
        if self.spec.saved:
            self.fleet.adopt(json.loads((content.use(self.spec.saved.folder) / GUESTS).read_text()))
        else:
            self.fleet.bring_kernels()

    def close(self, reason: str = "") -> None:
        """End everything and record how the boot went; `reason` says what was wrong."""
        try:
            for name in list(self.fleet.live) if not reason else ():
                self.fleet.retire(name)
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

    def boot_all(self) -> None:
        """Boot every guest of the experiment; a host that was loaded has them."""
        if not self.spec.saved:
            self.fleet.boot_all()

    def save(self, folder: Path) -> None:
        """Keep host and guests for a `Saved`; they are to be aborted then."""
        records.write_json(folder / GUESTS, self.fleet.known())
        self.machine.save(folder)

    # Runs

    def run(self, planned: PlannedRun, attempt: int) -> RunRecord:
        """Make one try at a run; raises HostLost, and nothing else for what guests do."""
        scheme, workload = self._schemes[planned.scheme], self._workloads[planned.workload]
        owner = self.experiment.owner(planned.scheme)
        names = [guest_name(owner, i) for i in range(planned.vms)]
        try:
            self.fleet.boot((owner, i) for i in range(planned.vms))
            absent = [name for name in names if name not in self.fleet.live]
            if absent:
                return self.invalid(planned, attempt, f"guest {absent[0]} did not boot")
            self._parameters.apply(self.machine.control, scheme, names)
            self._setup(names, workload)
            self.machine.control.call("switch", run=names)
            if wrong := self._not_in_force(scheme, names):
                return self.invalid(planned, attempt, wrong)
            before = self._tallies
            self._snapshot(names, planned.run_id(attempt), "before")
            self._run_on(names)
            with stalls.watch(self.spec.backend) as watch:
                answer = self.machine.control.call(
                    "round", guests=names, tag=planned.run_id(attempt), command=workload.command,
                    neighbour=workload.neighbour, timeout=workload.timeout_s,
                    settle=self.fleet.settle, patience=3 * self.fleet.settle, look=hung.COMMAND,
                    **self._meanwhile(names, planned.run_id(attempt)))
            self._keep(names, planned.run_id(attempt), answer)
            if not any(note["error"] for note in answer["guests"].values()):
                left = [name for name in names if "killed" not in answer["guests"][name]]
                self._snapshot(left, planned.run_id(attempt), "after")
                wrong = self._not_in_force(scheme, left) or marks.unseen(
                    before, self._tallies, self.experiment.vcpus)
            self.machine.control.call("switch", run=[])
        except Refused as refusal:
            for name in names:
                if name in self.fleet.live:
                    self.fleet.drop(name, self.fleet.look(name) or str(refusal))
            return self.invalid(planned, attempt, str(refusal))
        record = self._record_of(planned, attempt, names, answer)
        if wrong and record.valid:
            record = replace(record, valid=False, reason=wrong)
        return replace(record, stalled=watch.stalled)

    def _setup(self, names: list[str], workload: Workload) -> None:
        """What a guest goes through once for a workload: its setup, one unmeasured run.

        The latter where more than one measured run may follow.
        When the experiment observes, the guest counts from here on.
        """
        fresh = [name for name in names if workload.name not in self.fleet.live[name].prepared]
        if not fresh:
            return
        control = self.machine.control
        self._run_on(fresh)
        control.call("switch", run=fresh)
        steps = []
        if self.experiment.observe:
            new = [name for name in fresh if not self.fleet.live[name].prepared]
            switch = observed.switch_on(self.experiment.observe)
            steps.append(("the start of the counting", new, switch, self.fleet.settle))
        if workload.setup:
            what = f"the setup of {workload.name}"
            steps.append((what, fresh, workload.setup, workload.timeout_s))
        for what, where, command, limit in steps:
            for name, answer in self.fleet.everywhere(where, "setup", command, limit).items():
                if answer["status"] != 0:
                    text = base64.b64decode(answer["out"]).decode(errors="replace").strip()
                    raise Refused(f"{what} failed in guest {name}"
                                  f" with status {answer['status']}: {text[-200:]}")
        if self.experiment.reps > 1 or self.experiment.share:
            answer = control.call(
                "round", guests=fresh, tag="warm", command=workload.command, repeat=False,
                timeout=workload.timeout_s, settle=self.fleet.settle,
                patience=2 * self.fleet.settle)
            for note in answer["guests"].values():
                if note["error"]:
                    raise Refused(note["error"])
        for name in fresh:
            self.fleet.live[name].prepared.add(workload.name)

    def _snapshot(self, names: list[str], run_id: str, when: str) -> None:
        """Keep the counters of these guests and of the host, if the experiment observes."""
        if not self.experiment.observe:
            return
        control = self.machine.control
        if when == "before" and control.read_file(observed.VCPU_STAT):
            control.write_file(observed.VCPU_STAT, "1")
        command = observed.guest_snapshot(self.experiment.observe, when)
        answers = self.fleet.everywhere(names, when, command, self.fleet.settle)
        read = observed.host_snapshot({name: self.fleet.live[name].folder for name in names}, when)
        answers[observed.HOST] = control.call(
            "exec", argv=["sh", "-c", read], timeout=self.fleet.settle)
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
                (observed.vm_file(self.fleet.live[name].folder), windows.GRANTED))]
            asked["watch"] = {"files": files, "interval": self.experiment.window_ms / 1e3}
        if self.experiment.disturb:
            folder = parameters.PARAMETERS.format(module="pvsync")
            asked["disturb"] = disturb.request(self.experiment, run_id, names, folder,
                                                self._restore_limit)
        return asked

    def _keep(self, names: list[str], run_id: str, answer: Answer) -> None:
        """Write what a round has noted besides, and where its guests are now."""
        for name in names:
            live = self.fleet.live[name]
            live.folder = answer["guests"][name].get("folder", live.folder)
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
            folders = {name: self.fleet.live[name].folder for name in names}
            if wrong := self._parameters.wrong(self.machine.control, scheme, folders):
                return wrong
        told = self._told(names)
        self._tallies = self._tally(scheme, told)
        for name in names:
            arguments = self.fleet.live[name].spec.args
            asked = in_force.wanted(arguments, self.experiment.vcpus, scheme.expect)
            wrong = in_force.reason(name, in_force.mismatches(asked, told[name], changed)
                                    if in_force.tells(scheme.variant or self.experiment.variant)
                                    else in_force.unknown(arguments))
            if wrong:
                return wrong
        return ""

    def _told(self, names: list[str]) -> dict[str, str]:
        """What these guests say is in force; one that ran nothing since is not asked again."""
        asked = [name for name in names if not self.fleet.live[name].told]
        command = f"{marks.SWITCH}; {marks.READ}; {in_force.COMMAND}"
        answers = self.fleet.everywhere(asked, "in-force", command, self.fleet.settle)
        for name, answer in answers.items():
            self.fleet.live[name].told = base64.b64decode(answer["out"]).decode(errors="replace")
        return {name: self.fleet.live[name].told for name in names}

    def _run_on(self, names: list[str]) -> None:
        """These guests are to run a workload: what they said is out of date then."""
        for name in names:
            self.fleet.live[name].told = ""

    def _tally(self, scheme: Scheme, told: dict[str, str]) -> dict[str, marks.Tally]:
        """What these guests have seen so far of the marks that the scheme's host promises."""
        if not marks.promised(scheme.host) or "parameters" in self.experiment.disturb:
            return {}
        read = marks.host_command({name: self.fleet.live[name].folder for name in told})
        answer = self.machine.control.call("exec", argv=["sh", "-c", read],
                                           timeout=self.fleet.settle)
        return marks.tallies(base64.b64decode(answer["out"]).decode(errors="replace"), told)

    def _record_of(self, planned: PlannedRun, attempt: int, names: list[str],
                   answer: Answer) -> RunRecord:
        """The record of a round, with outputs written; guests that failed are dropped."""
        folder = Path("raw") / planned.run_id(attempt)
        (self.out / folder).mkdir(parents=True, exist_ok=True)
        seen = [self._seen(name, folder / f"{name}.out", answer["guests"][name])
                for name in names]
        host = self.machine.trouble()
        if host:
            raise HostLost(host)
        done = disturb.counted(answer["disturbed"])
        reason = judge.why_invalid(seen, disturb.lacking(self.experiment, done))
        record = self._run_record(planned, attempt, reason, tuple(one.run for one in seen),
                                  judge.share(seen))
        return replace(record, disturbed=done)

    def _seen(self, name: str, file: Path, note: Answer) -> judge.Seen:
        """What a guest did in a round; one that failed is dropped, one that was killed ends."""
        records.write(self.out / file, base64.b64decode(note.get("out", "")))
        if note.get("look"):
            seen = file.with_name(hung.FILE.format(guest=name))
            records.write(self.out / seen, base64.b64decode(note["look"]))
        run = GuestRun(name, note.get("began"), note.get("ended"), note.get("elapsed"),
                       note.get("status"), str(file), note.get("cpu"))
        killed = "killed" in note
        trouble = self.fleet.look(name) or note["error"] or ""
        if trouble:
            self.fleet.post_mortem(name)
            self.fleet.drop(name, trouble)
            self.dropped += 1
        elif killed:
            self.fleet.end(name)
        return judge.Seen(run, trouble, killed, note.get("worst") or 0)

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
            seed=self.spec.seed if self.spec.backend == "vt" else None,
            snapshot=self.spec.saved.seed if self.spec.saved else None)
