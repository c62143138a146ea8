# SPDX-License-Identifier: GPL-2.0-only
"""Host parameters of schemes: written before a run, read back before and after it."""

from collections.abc import Iterator, Mapping

from lab.core.model import Scheme
from lab.machine.control import Control, Refused
from lab.observe import observed
from lab.plan.known import OWN_PREFIX, VCPU_PREFIX

PARAMETERS = "/sys/module/{module}/parameters"
BOOLS = {"Y": ("y", "yes", "on", "1", "true"), "N": ("n", "no", "off", "0", "false")}
"""How a kernel shows a truth value, to what it takes for it, in small letters."""


def parameter_file(name: str) -> str:
    """File of a host parameter; "module.name" names another module's."""
    module, dot, rest = name.partition(".")
    folder = PARAMETERS.format(module=module if dot else "pvsync")
    return f"{folder}/{rest if dot else name}"


def same(wrote: str, found: str) -> bool:
    """Whether a parameter that shows `found` has the value that was written."""
    wrote = wrote.strip()
    if found in BOOLS:
        return wrote.lower() in BOOLS[found]
    return wrote == found or (wrote.isdecimal() and found.isdecimal() and int(wrote) == int(found))


class Parameters:
    """Those of one host that is up, of its VMs, and of their vCPUs' threads."""

    def __init__(self) -> None:
        self._defaults: dict[str, str] = {}
        """What was there before, of all that were written."""

    def apply(self, control: Control, scheme: Scheme, guests: list[str]) -> None:
        """Write the scheme's; others get back what they had. Raises Refused.

        In the order of their names: in virtual time another order is another run.
        """
        for name in sorted({*scheme.host, *self._defaults}):
            try:
                self._write(control, name, scheme.host.get(name), guests)
            except Refused as refusal:
                raise Refused(f"host parameter {name} of scheme {scheme.name}"
                              f" cannot be set: {refusal}") from None

    def _write(self, control: Control, name: str, value: str | None, guests: list[str]) -> None:
        """One of them; None is what it had."""
        if name.startswith(OWN_PREFIX):
            for guest in guests:
                control.call("tune", name=guest, parameter=name.removeprefix(OWN_PREFIX),
                             value=value)
        elif name.startswith(VCPU_PREFIX):
            if name not in self._defaults:
                self._defaults[name] = str(control.call("slice", name=guests[0])["slices"][0])
            for guest in guests:
                control.call("slice", name=guest, us=int(value or 0))
        else:
            if name not in self._defaults:
                self._defaults[name] = control.read_file(parameter_file(name)).decode().strip()
            control.write_file(parameter_file(name),
                               self._defaults[name] if value is None else value)

    @staticmethod
    def _found(control: Control, name: str,
               folders: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Who has a parameter, and its value there."""
        if name.startswith(VCPU_PREFIX):
            for guest in folders:
                for vcpu, slice_us in enumerate(control.call("slice", name=guest)["slices"]):
                    yield f"the host for vCPU {vcpu} of guest {guest}", str(slice_us)
            return
        files = {"the host": parameter_file(name)}
        if name.startswith(OWN_PREFIX):
            own = name.removeprefix(OWN_PREFIX)
            files = {f"the host for guest {guest}": observed.vm_file(folder, own)
                     for guest, folder in folders.items()}
        for who, file in files.items():
            yield who, control.read_file(file).decode(errors="replace").strip()

    def wrong(self, control: Control, scheme: Scheme, folders: Mapping[str, str]) -> str:
        """Why the host does not have in force what was written, one sentence, or nothing.

        `folders` is guest to the debugfs folder of its VM.
        """
        for name, value in sorted((self._defaults | scheme.host).items()):
            for who, found in self._found(control, name, folders):
                if not same(value, found):
                    return (f"{who} does not have in force what scheme {scheme.name} asks for:"
                            f" {name}, wanted {value}, found {found or 'nothing'}")
        return ""
