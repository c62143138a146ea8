# SPDX-License-Identifier: GPL-2.0-only
"""Disturbs guests while they are measured, as the lab says; lies beside hostd.py."""

import asyncio
import contextlib
import errno
import math
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from vm import Failure, Guest, put

Values = list[str | tuple[str, int, int]]
"""Of a parameter: texts, and what a number from one to another follows."""
Parameter = tuple[str, str, Values]
"""Kind, file or name, values."""
Event = list[float | str]
"""When, what kind, what was done."""


def any_value(values: Values, chance: random.Random) -> str:
    """One of them; of numbers, small ones are as likely as large ones."""
    one = chance.choice(values)
    if isinstance(one, str):
        return one
    text, least, most = one
    number = math.expm1(chance.uniform(math.log1p(least), math.log1p(most)))
    return f"{text}{min(max(round(number), least), most)}"


class Disturber:
    """Begins at once; `end` ends it. The plan, without which nothing is done, has

    kill, restore   names of guests: to each that happens once, at a random time in the
                    first `within` seconds of its measured part
    limit           seconds that a restore may take
    files, own      every `every` seconds one of the host's parameters (lists of kind, file
                    and values) or a VM's own (kind, name, values) gets a random value; what
                    they were they are again in the end
    seed            the same makes the same choices
    """

    def __init__(self, guests: Sequence[Guest], notes: dict[str, dict[str, Any]],
                 plan: dict[str, Any] | None) -> None:
        self.guests, self.notes = guests, notes
        self.events: list[Event] = []
        self.over = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []
        if plan is None:
            return
        self.limit: float = plan["limit"]
        chance = random.Random(plan["seed"])
        for step, names in ((self._restore, plan["restore"]), (self._kill, plan["kill"])):
            for guest in guests:
                if guest.name in names:
                    after = chance.uniform(0, plan["within"])
                    self.tasks.append(asyncio.create_task(self._once(step, guest, after)))
        if plan["files"] or plan["own"]:
            self.tasks.append(asyncio.create_task(
                self._change(chance, plan["files"], plan["own"], plan["every"])))

    async def end(self) -> list[Event]:
        """What was done; nothing begins any more, and what has begun ends first."""
        self.over.set()
        for task in self.tasks:
            try:
                await task
            except (Failure, OSError) as error:
                note = self.notes[self.guests[0].name]
                note["error"] = note["error"] or str(error)
        return self.events

    async def _pause(self, seconds: float) -> bool:
        """Whether the round still goes on after that."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.over.wait(), seconds)
        return not self.over.is_set()

    def _done(self, kind: str, what: str) -> None:
        self.events.append([time.monotonic(), kind, what])

    async def _once(self, step: Callable[[Guest, dict[str, Any]], Any], guest: Guest,
                    after: float) -> None:
        note = self.notes[guest.name]
        while "began" not in note:
            if not await self._pause(0.01):
                return
        if await self._pause(after):
            async with guest.turn:
                if not guest.killed:
                    await step(guest, note)

    async def _kill(self, guest: Guest, note: dict[str, Any]) -> None:
        if guest.proc is not None and guest.proc.returncode is None:
            guest.killed, note["killed"] = True, time.monotonic()
            guest.proc.kill()
            self._done("kill", guest.name)

    async def _restore(self, guest: Guest, note: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(self.limit):
                await guest.restore()
        except (Failure, OSError) as error:
            reason = str(error)
            if not reason:
                reason = f"it did not come back within {self.limit:g} s"
            note["error"] = f"guest {guest.name} was saved and not restored: {reason}"
            await guest.end_qemu()
            return
        note["folder"] = next(map(str, guest.folders()), "")
        self._done("restore", guest.name)

    async def _change(self, chance: random.Random, files: list[Parameter], own: list[Parameter],
                      every: float) -> None:
        before = {file: Path(file).read_text() for _, file, _ in files}
        settings = {guest.name: guest.parameters() for guest in self.guests if own}
        places: list[tuple[Guest | None, Parameter]] = [(None, one) for one in files]
        places += [(guest, one) for guest in self.guests for one in own]
        try:
            while await self._pause(every):
                guest, (kind, name, values) = chance.choice(places)
                value = any_value(values, chance)
                if self._put(guest, name, value):
                    self._done(kind, f"{guest.name if guest else 'host'} {name} {value}")
        finally:
            for file, text in before.items():
                put(Path(file), text)
            for guest in self.guests:
                for name, value in settings.get(guest.name, {}).items():
                    self._put(guest, name, value)

    def _put(self, guest: Guest | None, name: str, value: str) -> bool:
        """False for a VM that is gone, or has no settings of its own."""
        try:
            if guest is None:
                put(Path(name), value)
            elif guest.folders():
                guest.tune(name, value)
            else:
                return False
        except OSError as error:
            if guest is None or error.errno == errno.EINVAL:
                raise Failure(f"{name} did not take {value}: {error}") from None
            return False
        return True
