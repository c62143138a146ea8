# SPDX-License-Identifier: GPL-2.0-only
"""A guest as hostd sees it: its QEMU, the QMP socket and the socket of its agent.

Standard library only; lies beside hostd.py.
"""

import asyncio
import base64
import contextlib
import ctypes
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import slices

CGROUPS = Path("/sys/fs/cgroup")
VMS = Path("/sys/kernel/debug/kvm")
LINE_LIMIT = 16 << 20
DIGITS = 20
PR_SET_PDEATHSIG = 1
NICE = os.nice(0)
"""What this process has before it makes itself more urgent: guests have it, too."""


class Failure(Exception):
    """An operation failed; the text is the answer's `error`."""


def number_in(file: str, name: str) -> int | None:
    """The number in the file's line "name number"; None when it cannot be read."""
    with contextlib.suppress(OSError):
        for line in Path(file).read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == name and value.isdecimal() and len(value) <= DIGITS:
                return int(value)
    return None


def put(file: Path, text: str) -> None:
    """Write to a kernel's file at once: a buffer would write what was refused again."""
    with file.open("wb", buffering=0) as raw:
        raw.write(text.encode())


async def told_in_time(name: str, answer: Awaitable[Any], seconds: float) -> Any:
    """What QEMU of a guest tells of its threads."""
    try:
        async with asyncio.timeout(seconds):
            return await answer
    except TimeoutError:
        raise Failure(f"QEMU of guest {name} did not tell its threads") from None


def die_with_us() -> Callable[[], None]:
    """What a child does before exec, so that it does not outlive this process.

    If this process ends before the child has told the kernel so, the child ends itself.
    """
    us = os.getpid()

    def enter() -> None:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != us:
            os.kill(os.getpid(), signal.SIGKILL)

    return enter


class Guest:
    """One QEMU process, its QMP socket and its agent's socket."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.proc: asyncio.subprocess.Process | None = None
        self.cgroup: Path | None = None
        self.messages: asyncio.Queue[tuple[float, list[str]]] = asyncio.Queue()
        self.agent: asyncio.StreamWriter | None = None
        self.qmp_reader: asyncio.StreamReader | None = None
        self.qmp_writer: asyncio.StreamWriter | None = None
        self.qmp_lock = asyncio.Lock()
        self.turn = asyncio.Lock()
        self.stopped = False
        self.killed = False
        """On purpose."""
        self.pinned = False
        self.argv: list[str] = []
        self.successor: asyncio.Future[asyncio.StreamReader | None] | None = None
        """While it is restored: the agent's socket of the next QEMU, None when there is none."""
        self.pong = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []

    async def start(self, argv: list[str], cgroup: str) -> None:
        """Spawn QEMU and connect; the agent's hello is among the messages then."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "console").unlink(missing_ok=True)
        self.argv = argv
        if cgroup:
            self.cgroup = CGROUPS / cgroup
            self.cgroup.mkdir(parents=True, exist_ok=True)
        reader = await self._spawn(argv)
        self.tasks.append(asyncio.create_task(self._listen(reader)))

    async def _spawn(self, argv: list[str]) -> asyncio.StreamReader:
        """Start QEMU and connect to it; what its agent says."""
        for stale in ("qmp", "agent"):
            (self.folder / stale).unlink(missing_ok=True)
        dies = die_with_us()
        with (self.folder / "qemu.err").open("wb") as err:
            self.proc = await asyncio.create_subprocess_exec(
                *argv, stdin=asyncio.subprocess.DEVNULL, stdout=err, stderr=err,
                preexec_fn=lambda: self._enter(dies), start_new_session=True)
        reader, self.agent = await self._connect("agent")
        self.qmp_reader, self.qmp_writer = await self._connect("qmp")
        await self.qmp_reader.readline()
        await self.qmp("qmp_capabilities")
        return reader

    async def restore(self) -> None:
        """Save the guest, end its QEMU, and have another one go on with it.

        The guest does not notice; it has to answer after that. Its own host
        parameters go with it. Nothing may be said to it meanwhile.
        """
        state, own = self.folder / "state", self.parameters()
        await self.qmp("stop")
        await self._migrate("migrate", f"exec:cat >{state}")
        self.successor = asyncio.get_running_loop().create_future()
        reader = None
        try:
            await self.end_qemu()
            # Its agent's socket is connected before the guest runs, or it would see it closed.
            reader = await self._spawn([*self.argv, "-incoming", "defer"])
            if self.pinned:
                await self.pin()
            await self._migrate("migrate-incoming", f"exec:cat {state}")
        finally:
            self.successor.set_result(reader)
            state.unlink(missing_ok=True)
        for name, value in own.items():
            self.tune(name, value)
        await self.qmp("cont")
        self.pong.clear()
        self.send("ping", "restored")
        await self.pong.wait()

    async def threads(self) -> dict[int, int]:
        """That of each vCPU."""
        return {vcpu["cpu-index"]: vcpu["thread-id"]
                for vcpu in await self.qmp("query-cpus-fast")}

    async def pin(self) -> dict[int, int]:
        """Tie vCPU i to CPU i of this machine, counted round, for good; vCPU to CPU."""
        self.pinned = True
        cpus = sorted(os.sched_getaffinity(0))
        threads = await self.threads()
        tied = {vcpu: cpus[vcpu % len(cpus)] for vcpu in threads}
        for vcpu, thread in threads.items():
            os.sched_setaffinity(thread, {tied[vcpu]})
        return tied

    async def slices(self, us: int | None) -> list[int]:
        """Of its vCPUs in EEVDF, us, in order; asked for before, unless None."""
        threads = [thread for _, thread in sorted((await self.threads()).items())]
        for thread in threads:
            if us is not None:
                slices.ask(thread, us)
        return [slices.get(thread) for thread in threads]

    async def _migrate(self, command: str, uri: str) -> None:
        """Save to, or restore from, and wait until that is done."""
        await self.qmp(command, uri=uri)
        while (state := await self.qmp("query-migrate")).get("status") != "completed":
            if state.get("status") == "failed":
                raise Failure(f"QMP {command}: {state.get('error-desc', 'it failed')}")
            await asyncio.sleep(0.05)

    async def end_qemu(self) -> None:
        """By force, and without its sockets."""
        if self.proc is not None and self.proc.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.proc.kill()
            await self.proc.wait()
        for writer in (self.agent, self.qmp_writer):
            if writer is not None:
                writer.close()

    def _enter(self, dies: Callable[[], None]) -> None:
        dies()
        os.setpriority(os.PRIO_PROCESS, 0, NICE)
        if self.cgroup is not None:
            (self.cgroup / "cgroup.procs").write_text(str(os.getpid()))

    async def _connect(self, what: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        path = str(self.folder / what)
        while True:
            if self.proc is not None and self.proc.returncode is not None:
                raise Failure(f"QEMU of guest {self.name} ended at once: {self.stderr()}")
            with contextlib.suppress(OSError):
                return await asyncio.open_unix_connection(path, limit=LINE_LIMIT)
            await asyncio.sleep(0.05)

    def folders(self) -> list[Path]:
        """The debugfs folders of its virtual machine: one, or none without debugfs."""
        pid = self.proc.pid if self.proc is not None else 0
        return list(VMS.glob(f"{pid}-*"))

    def tune(self, parameter: str, value: str) -> None:
        """Set a host parameter of its own."""
        files = [folder / "pvsync" / parameter for folder in self.folders()]
        if not files:
            raise Failure(f"there is no folder of guest {self.name} in {VMS}")
        for file in files:
            put(file, value)

    def parameters(self) -> dict[str, str]:
        """Its own host parameters: name to value, one word. What else can be written is none."""
        files = [file for folder in self.folders() for file in folder.glob("pvsync/*")
                 if file.stat().st_mode & 0o200]
        texts = {file.name: file.read_text().split() for file in files}
        return {name: words[0] for name, words in texts.items() if len(words) == 1}

    def stderr(self) -> str:
        """What QEMU printed, last 500 characters."""
        with contextlib.suppress(OSError):
            return (self.folder / "qemu.err").read_text(errors="replace")[-500:].strip()
        return ""

    async def end(self) -> str:
        """How QEMU ended, once its agent's socket has closed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2):
                if self.proc is not None:
                    await self.proc.wait()
        code = self.proc.returncode if self.proc is not None else None
        how = {None: "closed its channel", 0: "reset itself"}.get(code, f"ended with status {code}")
        return f"{how}{': ' if self.stderr() else ''}{self.stderr()}"

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        """Put what the agent says into the queue; its next QEMU goes on in mid-line."""
        begun, source = b"", reader
        while True:
            line = b""
            with contextlib.suppress(OSError, ValueError):
                line = await source.readline()
            begun += line
            if begun.endswith(b"\n"):
                self._heard(begun.decode(errors="replace").split())
                begun = b""
            if line:
                continue
            following = await self.successor if self.successor is not None else None
            self.successor = None
            if following is None:
                break
            source = following
        self.messages.put_nowait((time.monotonic(), ["gone"]))

    def _heard(self, words: list[str]) -> None:
        if words[:1] == ["pong"]:
            self.pong.set()
        elif words:
            self.messages.put_nowait((time.monotonic(), words))

    def send(self, *words: str) -> None:
        """One line to the agent."""
        if self.agent is None:
            raise Failure(f"guest {self.name} has no agent")
        self.agent.write((" ".join(words) + "\n").encode())

    async def expect(self, verb: str, ident: str) -> tuple[float, list[str]]:
        """Wait for `verb ident ...`; other lines are dropped."""
        while True:
            when, words = await self.messages.get()
            if words[0] == "gone":
                self.messages.put_nowait((when, words))
                raise Failure(f"guest {self.name} died: its virtual machine {await self.end()}")
            if words[0] == verb and (verb == "hello" or words[1:2] == [ident]):
                return when, words[2:] if verb != "hello" else words[1:]

    def used_us(self) -> int | None:
        """CPU time of its virtual machine so far, microseconds; None without a group of its own."""
        group = self.cgroup
        return None if group is None else number_in(str(group / "cpu.stat"), "usage_usec")

    async def measure(self, note: dict[str, Any], tag: str, mode: str) -> None:
        """One measured command, of which `note` gets what is known; see guest-init."""
        self.send("go", tag, mode)
        note["began"], _ = await self.expect("began", tag)
        before = self.used_us()
        try:
            note["ended"], words = await self.expect("ended", tag)
        except Failure:
            if not self.killed:
                raise
            return
        after = self.used_us()
        if before is not None and after is not None:
            note["cpu"] = (after - before) / 1e6
        note["status"], note["elapsed"] = int(words[0]), int(words[1]) / 1e6

    async def look(self, note: dict[str, Any], tag: str, command: str) -> None:
        """What a command says that runs beside the measured one, base64, into `note`."""
        self.send("look", tag, base64.b64encode(command.encode()).decode())
        note["look"] = await self.output(tag)

    async def output(self, ident: str) -> str:
        """The `out` lines up to `end`, still base64, joined."""
        parts: list[str] = []
        while True:
            when, words = await self.messages.get()
            if words[0] == "gone":
                self.messages.put_nowait((when, words))
                raise Failure(f"guest {self.name} died while it sent its output")
            if words[:2] == ["out", ident] and len(words) > 2:
                parts.append(words[2])
            elif words[:2] == ["end", ident]:
                return self._checked("".join(parts))

    def _checked(self, encoded: str) -> str:
        """The same, when it is base64."""
        try:
            base64.b64decode(encoded, validate=True)
        except ValueError:
            raise Failure(f"guest {self.name} sent a damaged output") from None
        return encoded

    async def qmp(self, command: str, **arguments: Any) -> Any:
        """One QMP command; events are skipped."""
        if self.qmp_writer is None or self.qmp_reader is None:
            raise Failure(f"guest {self.name} has no QMP socket")
        async with self.qmp_lock:
            body = {"execute": command, "arguments": arguments}
            with contextlib.suppress(OSError):
                self.qmp_writer.write(json.dumps(body).encode() + b"\n")
                while line := await self.qmp_reader.readline():
                    answer = json.loads(line)
                    if "return" in answer:
                        return answer["return"]
                    if "error" in answer:
                        raise Failure(f"QMP {command}: {answer['error'].get('desc')}")
        raise Failure(f"guest {self.name} died: its virtual machine {await self.end()}")

    async def kill(self) -> None:
        """End QEMU, by force; close everything."""
        await self.end_qemu()
        for task in self.tasks:
            task.cancel()
        if self.cgroup is not None:
            with contextlib.suppress(OSError):
                self.cgroup.rmdir()
