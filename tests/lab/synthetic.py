# SPDX-License-Identifier: GPL-2.0-only
"""Result directories as the runner would leave them, made without a machine."""

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from lab.core.model import BootRecord, GuestRun, Manifest, Observe, RunRecord, Scheme, Workload
from lab.machine.guest import guest_group
from lab.observe import cpu_waits, epochs, observed, windows
from lab.observe.histogram import Bins

HACKBENCH = Workload(
    name="hackbench",
    about="messages",
    command="hackbench -g 2",
    metric="time",
    unit="s",
    better="lower",
    pattern=r"(?m)^Time: (?P<value>[0-9]+\.?[0-9]*)\s*$",
    timeout_s=60,
)
THROUGHPUT = replace(
    HACKBENCH,
    name="dbench",
    command="dbench 4",
    metric="throughput",
    unit="MB/s",
    better="higher",
    pattern=r"Throughput (?P<value>[0-9.]+) MB/sec",
)


def scheme(label: str) -> Scheme:
    name = label.partition(":")[0]
    return Scheme(name, f"about {label}", (f"pvsync.lock={name}",), label=label)


def steady(scheme_label: str, vms: int, guest: int, rng: random.Random) -> float:
    """A plausible figure: ticket collapses with the number of VMs, pmt does not."""
    slow = {"pvqspinlock": 1.1, "ticket": 3.0, "pmt": 1.0, "tas": 1.2}.get(scheme_label, 1.15)
    base = 1.0 if vms == 1 else slow ** (vms - 1) * vms
    return base * (1 + 0.01 * guest) * rng.lognormvariate(0, 0.06)


@dataclass(frozen=True)
class Counted:
    """What one run adds to the counters: in each of its guests, and in the host."""

    guest: dict[str, int] = field(default_factory=dict)
    waits: Bins = field(default_factory=dict)
    host: dict[str, int] = field(default_factory=dict)
    usec: tuple[int, ...] = ()
    """CPU time of each VM."""
    flushes: Mapping[str, list[tuple[int, int]]] | None = None
    """Mechanism to wall and ran times of its flushes; None: the kernel has no such file."""
    vms: tuple[dict[str, int], ...] = ()
    """What the host counts for each VM."""
    windows: tuple[tuple[int, ...], ...] = ()
    """CPU time of each VM in each window of 100 ms, microseconds."""
    granted: int = 0
    """Preemptions put off in each window, for each VM."""
    epochs: tuple[tuple[int, int], ...] = ()
    """Window and inefficiency (ppm) of each VM's epochs, 10 ms apart; two before the run too."""
    cpu_waits: tuple[tuple[Bins, int], ...] = ()
    """Of each VM, its waits for a CPU in nanoseconds, and the longest."""
    other_waits: Bins | None = None
    """Of all guests but the first, if theirs are others."""

    def write(self, folder: Path, guests: list[str]) -> None:
        """Two snapshots of each."""
        for when, share in (("before", 0), ("after", 1)):
            timed = {} if self.flushes is None else {
                "debug/tlb_latency": latency_lines(self.flushes if share else {})}
            for place, guest in enumerate(guests):
                other = self.other_waits if place else None
                text = sections(timed | {
                    "debug/counters": _pairs(self.guest, share),
                    "debug/lock_waits": _bins(self.waits if other is None else other, share),
                })
                (folder / observed.file_name(guest, when)).write_text(text)
            text = sections({"debug/counters": _pairs(self.host, share)} | {
                f"/groups/{guest_group(guest)}/cpu.stat": _pairs({"usage_usec": used}, share)
                for guest, used in zip(guests, self.usec, strict=False)} | {
                f"{observed.VMS}{guest}/counters": _pairs(own, share)
                for guest, own in zip(guests, self.vms, strict=False)} | {
                f"{observed.VMS}{guest}/epochs": [epochs.HEADS, *(
                    f"{n} {980_000_000 + n * 10_000_000} 1000 {window} {ppm} 5 6 7 8"
                    for n, (window, ppm) in enumerate(((1, 1), (2, 2), *self.epochs)))]
                for guest in guests if self.epochs and share} | {
                f"{observed.VMS}{guest}/{cpu_waits.FILE}": [
                    *_bins(bins, share), f"longest {max(1, longest * share)}"]
                for guest, (bins, longest) in zip(guests, self.cpu_waits, strict=False)})
            (folder / observed.file_name(observed.HOST, when)).write_text(text)
        if self.windows:
            (folder / windows.FILE).write_text(windows.as_text(guests, self._samples(len(guests))))

    def _samples(self, vms: int) -> list[list[float | int | None]]:
        """From the start of the run on."""
        used, found = [10**6] * vms, list[list[float | int | None]]()
        for place, window in enumerate(((0,) * vms, *self.windows)):
            used = [old + new for old, new in zip(used, window, strict=True)]
            pairs = ((one, 5 + place * self.granted) for one in used)
            found.append([1 + place / 10, *(value for pair in pairs for value in pair)])
        return found


def bucket(ns: int) -> int:
    """Lower bound of the kernel's bucket for a time; see kernel/pvsync/tlb_stat.c."""
    if ns < 8:
        return ns
    power = ns.bit_length() - 1
    return ns >> (power - 3) << (power - 3)


def latency_lines(values: Mapping[str, list[tuple[int, int]]]) -> list[str]:
    """The kernel's `tlb_latency` after flushes with these wall and ran times."""
    lines = []
    for name, pairs in values.items():
        clocks = [[pair[place] for pair in pairs] for place in (0, 1)]
        counts = [Counter(map(bucket, clock)) for clock in clocks]
        lines += [f"mechanism {name}", f"calls {len(pairs)}"]
        lines += [f"{clock}_ns {sum(times)} {max(times)}"
                  for clock, times in zip(("wall", "ran"), clocks, strict=True)]
        lines += [f"{lower} {counts[0][lower]} {counts[1][lower]}"
                  for lower in sorted({*counts[0], *counts[1]})]
    return lines


def cpu_wait_lines(values: Sequence[int]) -> list[str]:
    """The kernel's `cpu_waits` of a VM after waits of these nanoseconds."""
    bins: dict[int, list[int]] = {}
    for ns in values:
        bins.setdefault(min((ns // 1000).bit_length(), cpu_waits.LAST), []).append(ns)
    return [*(f"{number} {len(waits)} {sum(waits)}" for number, waits in sorted(bins.items())),
            f"longest {max(values, default=0)}"]


def sections(files: dict[str, list[str]]) -> str:
    """What `head -v` prints of files, path to lines."""
    return "\n".join("".join(f"{line}\n" for line in (f"==> {path} <==", *lines))
                     for path, lines in files.items())


def _pairs(values: dict[str, int], share: int) -> list[str]:
    return [f"{name} {1000 + share * value}" for name, value in values.items()]


def _bins(bins: Bins, share: int) -> list[str]:
    return [f"{n} {waits * share + 1} {time * share + 2}" for n, (waits, time) in bins.items()]


@dataclass
class Synthetic:
    """What to make up; `write` leaves a complete directory."""

    schemes: tuple[str, ...] = ("pvqspinlock", "ticket", "pmt")
    workload: Workload = HACKBENCH
    vms: tuple[int, ...] = (1, 2, 3)
    reps: int = 5
    boots: int = 2
    seed: int = 1
    value: Callable[[str, int, int, random.Random], float] = steady
    invalid: dict[tuple[str, int], str] = field(default_factory=dict)
    """(scheme, VMs) to the reason of one extra invalid run there."""
    lost: frozenset[tuple[str, int]] = frozenset()
    """Cells that miss their last run."""
    counted: Callable[[str, int], Counted] | None = None
    """Makes it an observed experiment: scheme and VMs to what a run adds."""
    observe: Observe = True
    """What is observed then."""
    neighbour: tuple[str, ...] | None = None
    """Boot arguments of the guests but the first, of all schemes but the first."""
    window_ms: int = 0
    pin: bool = False
    busy: float | None = None
    """CPUs that a VM that runs takes on average."""

    def manifest(self) -> Manifest:
        return Manifest(
            experiment="synthetic",
            schemes=(scheme(self.schemes[0]), *(
                replace(scheme(label), neighbour=self.neighbour) for label in self.schemes[1:])),
            workloads=(self.workload,),
            kernel="6.12.0-pvsync 0123456789ab",
            base_version="6.12.0",
            config_hash="ba9876543210",
            qemu="QEMU emulator version 11.1.3",
            machine="Some CPU, 2 cores, 8 GiB",
            backend="tcg",
            commit="0000000",
            command=("pvsync", "run", "synthetic"),
            created="2026-01-02T03:04:05Z",
            vms=self.vms,
            vcpus=2,
            pcpus=2,
            reps=self.reps,
            boots=self.boots,
            baseline=self.schemes[0],
            observe=self.observe if self.counted is not None else False,
            window_ms=self.window_ms,
            pin=self.pin,
        )

    def write(self, directory: Path) -> Path:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "manifest.json").write_text(json.dumps(asdict(self.manifest())))
        rng = random.Random(self.seed)
        runs = []
        for boot in range(self.boots):
            for rep in range(self.reps):
                for label in self.schemes:
                    for vms in self.vms:
                        last = boot == self.boots - 1 and rep == self.reps - 1
                        if last and (label, vms) in self.lost:
                            continue
                        runs.append(self._run(directory, label, vms, boot, rep, rng))
        for (label, vms), reason in self.invalid.items():
            bad = self._run(directory, label, vms, 0, 99, rng)
            runs.append(replace(bad, id=bad.id + "-bad", valid=False, reason=reason))
        boots = [BootRecord(n, "", "", True, "", 4.0) for n in range(self.boots)]
        _lines(directory / "runs.jsonl", runs)
        _lines(directory / "boots.jsonl", boots)
        return directory

    def _run(
        self, directory: Path, label: str, vms: int, boot: int, rep: int, rng: random.Random
    ) -> RunRecord:
        run_id = f"b{boot}-{label.replace(':', '_')}-{vms}-r{rep}"
        guests = []
        for guest in range(vms):
            value = self.value(label, vms, guest, rng)
            output = directory / "raw" / run_id / f"g{guest}.out"
            output.parent.mkdir(parents=True, exist_ok=True)
            output.write_text(_output(self.workload, value))
            name = f"raw/{run_id}/g{guest}.out"
            cpu = None if self.busy is None else self.busy * value
            guests.append(GuestRun(f"g{guest}", 1.0, 1.0 + value, value, 0, name, cpu))
        if self.counted is not None:
            self.counted(label, vms).write(output.parent, [guest.guest for guest in guests])
        return RunRecord(
            id=run_id, boot=boot, rep=rep, attempt=0, scheme=label, workload=self.workload.name,
            vms=vms, vcpus=2, pcpus=2, valid=True, reason="", guests=tuple(guests), overlap=1.0,
        )


def _output(workload: Workload, value: float) -> str:
    if workload.pattern == HACKBENCH.pattern:
        return f"Running in process mode\nTime: {value:.6f}\n"
    if workload.pattern == THROUGHPUT.pattern:
        return f"Throughput {value:.6f} MB/sec  4 clients\n"
    return "done\n"


def _lines(path: Path, records: list[RunRecord] | list[BootRecord]) -> None:
    path.write_text("".join(json.dumps(asdict(record)) + "\n" for record in records))
