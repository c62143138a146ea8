# SPDX-License-Identifier: GPL-2.0-only
"""A host in virtual time with its guests, booted once and saved, that many hosts go on from.

Such a host is an entry of the cache. The seed of its boot goes into the name, as do the
command lines of host and guests with the files that they boot. The host that loads it has a
seed of its own.
"""

from dataclasses import replace
from pathlib import Path

from lab.core import content
from lab.core.errors import LabError
from lab.core.model import BootRecord, Experiment
from lab.core.progress import Progress
from lab.machine import acpi
from lab.machine.control import HostLost, Refused
from lab.machine.guest import guest_command
from lab.machine.machine import HostSpec, Saved, host_command
from lab.machine.steer import SteerError
from lab.run.fleet import HOST_QEMU, HOST_WORK, Note, boot_order, guest_files, guest_spec, owners
from lab.run.session import Session

KIND = "snapshot"
RECIPE = "1"
"""Goes into the hash; change it when the same input is to be booted again."""
KEEP = 2
"""Entries that are kept however old they are: each has its guests' memory."""
AGE_S = 2 * 3600.0
"""Seconds since the last load for which others are kept: a hunt makes hundreds of them."""
AT_ONCE_S = 1e-9
"""When a debugger is waited for: at the end of the first round."""


def start_from(experiment: Experiment, spec: HostSpec, seed: int, note: Note,
               progress: Progress) -> HostSpec:
    """`spec` as it goes on from a boot with this seed, which is made where the cache lacks it.

    For the main thread: what ends that, ends the boot. Raises LabError when a host or a guest
    does not come up.
    """
    boot = replace(spec, seed=seed, saved=None, debug=None)

    def fill(out: Path) -> None:
        _boot(experiment, boot, out, note)

    folder = content.entry(KIND, digest(experiment, boot), fill, progress, keep=KEEP, age=AGE_S)
    # Its clock is not 0, so nobody can wait for a debugger before that.
    debug = spec.debug and replace(spec.debug, at_s=max(spec.debug.at_s, AT_ONCE_S))
    return replace(spec, saved=Saved(folder, seed), debug=debug)


def digest(experiment: Experiment, boot: HostSpec) -> str:
    """Of all that the boot depends on; kernels and roots are named by what is in them."""
    hasher = (content.Hasher().text("recipe", RECIPE)
              .text("emulator", content.file_hash(Path(boot.emulator[0])))
              .text("host", *host_command(boot, Path("run"), Path("logs")))
              .blob("idle states", acpi.idle_states(boot.pcpus))
              .text("pin", str(experiment.pin)))
    schemes = {scheme.label or scheme.name: scheme for scheme in experiment.schemes}
    files = guest_files(boot)
    for label, index in boot_order(owners(experiment), max(experiment.vms), boot.seed):
        scheme = schemes[label]
        one = guest_spec(experiment, scheme, label, index, boot.backend)
        hasher.text("guest", *guest_command(
            HOST_QEMU, one, *files.get(scheme.variant, files[""]), HOST_WORK))
    return hasher.short()


def _boot(experiment: Experiment, boot: HostSpec, out: Path, note: Note) -> None:
    """Fill an entry: boot, and save; the logs of the boot stay beside that."""
    boots = list[BootRecord]()
    session = Session(experiment, boot, 0, out, boots.append, note)
    try:
        session.open()
        session.boot_all()
        if lost := [one for one in boots if not one.ok]:
            raise HostLost(lost[0].reason)
        note("saving the host")
        session.save(out)
    except (HostLost, Refused, SteerError) as lost_host:
        raise LabError(f"the boot that is to be saved failed with seed {boot.seed}: {lost_host};"
                       " give another --seed, or leave --snapshot out") from lost_host
    finally:
        session.abort()
