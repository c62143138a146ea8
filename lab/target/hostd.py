# SPDX-License-Identifier: GPL-2.0-only
"""Runs in the KVM host: starts guests and carries a round through them.

Standard library only, no policy: argument lists, kernel parameters and the
order of runs all come from the lab. vm.py is one guest, disturb.py what is done
to guests while they run, pvpanic.py stops this machine. The control channel (a
virtio port, see virtio_port.py, or a Unix socket with `--socket`) carries one
JSON object per line.
Request {"id", "op", ...}; answer {"id", "ok": true, ...} or {"id", "ok":
false, "error": one sentence}. Every operation ends by its own time limit.
Times are seconds of this machine's monotonic clock.
"""

import argparse
import asyncio
import base64
import contextlib
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pvpanic
import virtio_port
from disturb import Disturber
from vm import CGROUPS, LINE_LIMIT, Failure, Guest, die_with_us, number_in, put, told_in_time

VERSION = 1
LOOK_S = 0.001
"""For a request that has come already to be read, before this machine is stopped."""
AGAIN_S = 1.0
"""After it was let go on for nothing."""


class Daemon:
    """The operations, each an `op_*` coroutine of keyword arguments."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.guests: dict[str, Guest] = {}
        self.before: dict[str, str] = {}
        """What was in the files that were written, by path."""
        self.closing = asyncio.Event()

    def guest(self, name: str) -> Guest:
        if name not in self.guests:
            raise Failure(f"there is no guest {name}")
        return self.guests[name]

    async def op_hello(self) -> dict[str, Any]:
        """Who answers: kernel, CPUs, clock source, free MiB, KVM, groups of CPU time."""
        clock = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        pages, size = os.sysconf("SC_AVPHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
        return {"version": VERSION, "kernel": os.uname().release, "cpus": os.cpu_count(),
                "clocksource": clock.read_text().strip() if clock.exists() else "",
                "free_mib": pages * size >> 20, "kvm": os.access("/dev/kvm", os.R_OK | os.W_OK),
                "cgroups": self.groups()}

    @staticmethod
    def groups() -> bool:
        """Whether guests can have CPU groups of their own (cgroup 2, controller cpu)."""
        control = CGROUPS / "cgroup.subtree_control"
        with contextlib.suppress(OSError):
            if "cpu" in control.read_text().split():
                return os.access(CGROUPS, os.W_OK)
            control.write_text("+cpu")
            return True
        return False

    async def op_exec(self, argv: list[str], timeout: float = 60) -> dict[str, Any]:
        """Run a program here; standard output and error are joined."""
        proc = await asyncio.create_subprocess_exec(
            *argv, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT, start_new_session=True, preexec_fn=die_with_us())
        try:
            out, _ = await asyncio.wait_for(proc.communicate(), timeout)
        except TimeoutError:
            os.killpg(proc.pid, signal.SIGKILL)
            await proc.wait()
            raise Failure(f"{argv[0]} did not end within {timeout:g} s") from None
        return {"status": proc.returncode, "out": base64.b64encode(out).decode()}

    async def op_read(self, path: str, offset: int = 0, limit: int = 1 << 20) -> dict[str, Any]:
        """A file's bytes from `offset` on, base64; empty when it is missing."""
        data = b""
        with contextlib.suppress(FileNotFoundError), Path(path).open("rb") as file:
            if offset:
                file.seek(offset)
            data = file.read(limit)
        return {"data": base64.b64encode(data).decode()}

    async def op_write(self, path: str, text: str) -> dict[str, Any]:
        """Write `text` to a file such as a kernel parameter; what it had comes back in the end."""
        file = Path(path)
        if path not in self.before:
            with contextlib.suppress(OSError, ValueError):  # one that can only be written
                self.before[path] = file.read_text()
        put(file, text)
        return {}

    async def op_copy(self, source: str, path: str, size: int) -> dict[str, Any]:
        """The first `size` bytes of a disk into a file."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with Path(source).open("rb") as disk, Path(path).open("wb") as file:
            file.write(disk.read(size))
        return {}

    async def op_start(self, name: str, argv: list[str], cgroup: str = "",
                       timeout: float = 120) -> dict[str, Any]:
        """Start a guest; answers when its agent said hello."""
        if name in self.guests:
            await self.op_kill(name)
        guest = self.guests[name] = Guest(name, self.work / "guests" / name)
        began = time.monotonic()
        try:
            async with asyncio.timeout(timeout):
                await guest.start(argv, cgroup)
                when, words = await guest.expect("hello", "")
        except TimeoutError:
            raise Failure(f"guest {name} did not answer within {timeout:g} s") from None
        return {"seconds": when - began, "kernel": words[0] if words else "",
                "folder": next(map(str, guest.folders()), "")}

    async def op_kill(self, name: str) -> dict[str, Any]:
        """End a guest; its console file stays."""
        guest = self.guests.pop(name, None)
        if guest is not None:
            await guest.kill()
        return {}

    async def op_qmp(self, name: str, command: str, arguments: dict[str, Any] | None = None,
                     timeout: float = 20) -> dict[str, Any]:
        """One QMP command to a guest's QEMU."""
        try:
            async with asyncio.timeout(timeout):
                answer = await self.guest(name).qmp(command, **(arguments or {}))
        except TimeoutError:
            raise Failure(f"QEMU of guest {name} did not answer {command}") from None
        return {"return": answer}

    async def op_switch(self, run: list[str], timeout: float = 30) -> dict[str, Any]:
        """Let exactly the guests named run; the others are stopped by QMP.

        One that does not obey in time is ended, so that it does not run beside others.
        """
        end = asyncio.get_running_loop().time() + timeout

        async def one(guest: Guest, stop: bool) -> None:
            if guest.stopped == stop:
                return
            try:
                async with asyncio.timeout_at(end):
                    # One that has died needs no stop, and its round has said so already.
                    with contextlib.suppress(*((Failure, OSError) if stop else ())):
                        await guest.qmp("stop" if stop else "cont")
            except TimeoutError:
                await self.op_kill(guest.name)
                raise Failure(f"QEMU of guest {guest.name} did not {'stop' if stop else 'go on'}"
                              f" within {timeout:g} s") from None
            guest.stopped = stop

        async def each(guests: list[Guest], stop: bool) -> None:
            steps = (one(guest, stop) for guest in guests)
            for outcome in await asyncio.gather(*steps, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    raise outcome

        await each([guest for name, guest in self.guests.items() if name not in run], True)
        await each([self.guest(name) for name in run], False)
        return {}

    async def op_guest_exec(self, name: str, tag: str, command: str,
                            timeout: float = 60) -> dict[str, Any]:
        """Run a command once in one guest."""
        guest = self.guest(name)
        encoded = base64.b64encode(command.encode()).decode()
        async with guest.turn:
            try:
                async with asyncio.timeout(timeout):
                    guest.send("exec", tag, encoded)
                    _, words = await guest.expect("done", tag)
                    out = await guest.output(tag)
            except TimeoutError:
                raise Failure(f"guest {name} did not end the command in {timeout:g} s") from None
        return {"status": int(words[0]), "elapsed": int(words[1]) / 1e6, "out": out}

    async def op_dmesg(self, name: str, tag: str, timeout: float = 30) -> dict[str, Any]:
        """A guest's kernel log."""
        guest = self.guest(name)
        async with guest.turn:
            try:
                async with asyncio.timeout(timeout):
                    guest.send("dmesg", tag)
                    return {"out": await guest.output(tag)}
            except TimeoutError:
                raise Failure(f"guest {name} did not send its log in {timeout:g} s") from None

    async def op_pin(self, name: str, timeout: float = 20) -> dict[str, Any]:
        """Tie vCPU i of a guest to CPU i of this machine, counted round; `cpus` by vCPU."""
        return {"cpus": await told_in_time(name, self.guest(name).pin(), timeout)}

    async def op_slice(self, name: str, us: int | None = None,
                       timeout: float = 20) -> dict[str, Any]:
        """`slices` of a guest's vCPUs, us; asked for before, unless None, see slices.py."""
        return {"slices": await told_in_time(name, self.guest(name).slices(us), timeout)}

    async def op_tune(self, name: str, parameter: str, value: str) -> dict[str, Any]:
        """Set a guest's own host parameter, in the debugfs folder of its virtual machine."""
        self.guest(name).tune(parameter, value)
        return {}

    async def op_round(  # noqa: PLR0913, PLR0917 (keywords of a request)
                       self, guests: list[str], tag: str, command: str, timeout: float,
                       repeat: bool = True, settle: float = 30, neighbour: str = "", look: str = "",
                       watch: dict[str, Any] | None = None,
                       disturb: dict[str, Any] | None = None) -> dict[str, Any]:
        """Barrier, the command in all guests at once, stop; see guest-init.

        With `neighbour`, that is the command of all guests but the first.
        `timeout` bounds the measured part, `settle` each of the two barriers.
        `guests` in the answer: name to what is known of it; `error` is empty
        when that guest went through the whole round. `watch` has `files` of
        lines "name number", each with the name of the number that is read
        every `interval` seconds of the measured part: `samples` are lists of
        the time and these numbers, null where there is none. `disturb` says
        what is done to guests meanwhile, see disturb.py; `disturbed` are
        lists of the time, the kind and what was done. A guest that was killed
        so has `killed`, the time, and one that was restored another `folder`.
        One that did not end in time has `look`, what that command says in it.
        """
        found = [self.guest(name) for name in guests]
        commands = dict.fromkeys(guests, neighbour or command) | {guests[0]: command}
        results: dict[str, dict[str, Any]] = {g.name: {"error": ""} for g in found}
        samples: list[list[float | int | None]] = []
        disturbed: list[list[float | str]] = []
        if await self._phase(found, results, settle, "get ready", self._prepare, tag, commands):
            mode = "repeat" if repeat else "once"
            watching = asyncio.create_task(self._watch(samples, **(watch or {})))
            disturber = Disturber(found, results, disturb)
            await self._phase(found, results, timeout, "end its run", Guest.measure, tag, mode)
            disturbed = await disturber.end()
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            late = [g for g in found
                    if look and results[g.name]["error"] and "began" in results[g.name]]
            looks: dict[str, dict[str, Any]] = {g.name: {"error": ""} for g in late}
            await self._phase(late, looks, settle, "say it", Guest.look, tag, look)
            for name, seen in looks.items():
                results[name]["look"] = seen.get("look") or base64.b64encode(
                    seen["error"].encode()).decode()
        alive = [g for g in found if "ready" in results[g.name] and not g.killed]
        await self._phase(alive, results, settle, "stop", self._stop, tag)
        return {"guests": results, "samples": samples, "disturbed": disturbed}

    async def _watch(self, samples: list[list[float | int | None]],
                     files: Sequence[Sequence[str]] = (), interval: float = 1) -> None:
        """Add samples until it is cancelled; at once, and then in a steady rhythm."""
        due = time.monotonic()
        while files:
            samples.append([time.monotonic(), *(number_in(*one) for one in files)])
            due = max(due + interval, time.monotonic())
            await asyncio.sleep(due - time.monotonic())

    async def _phase(self, guests: list[Guest], results: dict[str, dict[str, Any]], limit: float,
                     what: str, step: Any, *args: Any) -> bool:
        """One step in all guests; true when all of them did it in time.

        The first guest that dies ends the phase for all: a round in which
        not every guest takes part is worth nothing.
        """
        tasks = {asyncio.create_task(step(g, results[g.name], *args)): g for g in guests}
        if not tasks:
            return False
        finished, late = await asyncio.wait(
            tasks, timeout=limit, return_when=asyncio.FIRST_EXCEPTION)
        failed = [t for t in finished if t.exception() is not None]
        for task in failed:
            note = results[tasks[task].name]
            note["error"] = note["error"] or str(task.exception())
        for task in late:
            task.cancel()
            note = results[tasks[task].name]
            if not failed:      # else it was only cut short
                note["error"] = note["error"] or (
                    f"guest {tasks[task].name} did not {what} within {limit:g} s")
        await asyncio.gather(*late, return_exceptions=True)
        return not failed and not late

    async def _prepare(self, guest: Guest, note: dict[str, Any], tag: str,
                       commands: dict[str, str]) -> None:
        guest.send("prepare", tag, base64.b64encode(commands[guest.name].encode()).decode())
        note["ready"], _ = await guest.expect("ready", tag)

    async def _stop(self, guest: Guest, note: dict[str, Any], tag: str) -> None:
        guest.send("stop", tag)
        note["stopped"], words = await guest.expect("stopped", tag)
        note["runs"], note["worst"] = int(words[0]), int(words[1])
        note["out"] = await guest.output(tag)

    async def op_quit(self) -> dict[str, Any]:
        """End all guests, put back what was written, then end this process, or the machine."""
        for name in list(self.guests):
            await self.op_kill(name)
        for path, text in self.before.items():
            with contextlib.suppress(OSError):
                put(Path(path), text)
        self.closing.set()
        return {}

    async def answer(self, line: bytes, writer: asyncio.StreamWriter) -> None:
        """Carry out one request."""
        ident: Any = None
        try:
            request = json.loads(line)
            ident = request.pop("id")
            op = request.pop("op")
            method = getattr(self, f"op_{op}", None)
            if method is None:
                raise Failure(f"hostd does not know {op}")
            body = {"id": ident, "ok": True, **await method(**request)}
        except Exception as error:  # whatever it is, the lab waits for an answer
            known = isinstance(error, Failure | OSError)
            text = str(error) if known else f"{type(error).__name__}: {error}"
            body = {"id": ident, "ok": False, "error": text}
        writer.write(json.dumps(body).encode() + b"\n")
        await writer.drain()


async def idle_until(read: asyncio.Task[bytes], closing: asyncio.Task[Any],
                     running: set[asyncio.Task[None]], writer: asyncio.StreamWriter) -> None:
    """Stop this machine while there is nothing to read and nothing runs, see the lab's steer.py."""
    first = True
    while not (read.done() or closing.done()):
        patience = None if running else LOOK_S if first else AGAIN_S
        first = bool(running)
        await asyncio.wait({read, closing, *running}, timeout=patience,
                           return_when=asyncio.FIRST_COMPLETED)
        if not (read.done() or closing.done() or running):
            writer.write(json.dumps({"event": "hold"}).encode() + b"\n")
            await writer.drain()
            pvpanic.pause()


async def serve(args: argparse.Namespace) -> None:
    """Answer requests until `quit` or the end of the channel."""
    daemon = Daemon(Path(args.work))
    if args.socket:
        reader, writer = await asyncio.open_unix_connection(args.socket, limit=LINE_LIMIT)
    else:
        reader, writer = await virtio_port.opened(args.port)
    writer.write(json.dumps({"event": "up", **await daemon.op_hello()}).encode() + b"\n")
    running: set[asyncio.Task[None]] = set()
    closing = asyncio.create_task(daemon.closing.wait())
    while not daemon.closing.is_set():
        read = asyncio.create_task(reader.readline())
        if args.hold:
            await idle_until(read, closing, running, writer)
        await asyncio.wait({read, closing}, return_when=asyncio.FIRST_COMPLETED)
        if not read.done():
            read.cancel()
            break
        line = read.result()
        if not line:
            await daemon.op_quit()
            break
        task = asyncio.create_task(daemon.answer(line, writer))
        running.add(task)
        task.add_done_callback(running.discard)
    await asyncio.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description="Starts guests for the pvsync lab.")
    parser.add_argument("--port", default="pvsync.control", help="name of the virtio port")
    parser.add_argument("--socket", default="", help="Unix socket to connect to instead")
    parser.add_argument("--hold", action="store_true", help="stop the machine when idle")
    parser.add_argument("--work", required=True, help="folder for sockets and consoles")
    args = parser.parse_args()
    Path(args.work).mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(OSError):
        os.nice(-10)
    asyncio.run(serve(args))
    if args.socket:
        shutil.rmtree(Path(args.work) / "guests", ignore_errors=True)
    elif os.getpid() == 1:
        Path("/proc/sysrq-trigger").write_text("o")
        time.sleep(30)
    sys.exit(0)


if __name__ == "__main__":
    main()
