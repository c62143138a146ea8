# SPDX-License-Identifier: GPL-2.0-only
"""Host parameters of schemes: written before a run, read back before and after it."""

from collections.abc import Mapping

from lab.core.model import Scheme
from lab.machine.control import Control, Refused
from lab.observe import observed
from lab.plan.known import OWN_PREFIX

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
    """Those of one host that is up, and of its VMs."""

    def __init__(self) -> None:
        self._defaults: dict[str, str] = {}
        """What was there before, of all that were written."""

    def apply(self, control: Control, scheme: Scheme, guests: list[str]) -> None:
        """Write the scheme's; others get back what they had. Raises Refused."""
        for name in {*scheme.host, *self._defaults}:
            own = name.startswith(OWN_PREFIX)
            if not own and name not in self._defaults:
                self._defaults[name] = control.read_file(parameter_file(name)).decode().strip()
            try:
                if own:
                    for guest in guests:
                        control.call("tune", name=guest, parameter=name.removeprefix(OWN_PREFIX),
                                     value=scheme.host[name])
                else:
                    control.write_file(parameter_file(name),
                                       scheme.host.get(name, self._defaults[name]))
            except Refused as refusal:
                raise Refused(f"host parameter {name} of scheme {scheme.name}"
                              f" cannot be set: {refusal}") from None

    def wrong(self, control: Control, scheme: Scheme, folders: Mapping[str, str]) -> str:
        """Why the host does not have in force what was written, one sentence, or nothing.

        `folders` is guest to the debugfs folder of its VM.
        """
        for name, value in (self._defaults | scheme.host).items():
            files = {"the host": parameter_file(name)}
            if name.startswith(OWN_PREFIX):
                own = name.removeprefix(OWN_PREFIX)
                files = {f"the host for guest {guest}": observed.vm_file(folder, own)
                         for guest, folder in folders.items()}
            for who, file in files.items():
                found = control.read_file(file).decode(errors="replace").strip()
                if not same(value, found):
                    return (f"{who} does not have in force what scheme {scheme.name} asks for:"
                            f" {name}, wanted {value}, found {found or 'nothing'}")
        return ""
