# SPDX-License-Identifier: GPL-2.0-only
"""What runs on a worker of the cluster: plays one unit of work.

A worker need not have the lab: this file travels by value, so it imports nothing of it. The lab
itself is one of the artifacts. Each is a tar file by content: what the client's file system
shows here is used in place, all else arrives once and stays in the worker's cache.
"""

import contextlib
import ctypes
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import IO, Any

INSIDE = "content"
"""What an artifact's file or folder is called in its tar file, whatever it is for."""
TAIL = 400
"""Characters of what a unit said that are kept when it failed."""


def cache() -> Path:
    """Folder of artifacts; the same rule as the lab's own cache."""
    named = os.environ.get("PVSYNC_CACHE")
    above = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(named) if named else Path(above) / "pvsync"
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    return folder


def signature(path: Path) -> list[int]:
    """What tells that a file, or a folder, is the same one on the same file system."""
    found = path.stat()
    return [found.st_ino, found.st_size, found.st_mtime_ns]


def kept(digest: str) -> Path:
    """Where an artifact is once it has arrived."""
    return cache() / f"artifact-{digest}" / INSIDE


def place(artifact: dict[str, Any]) -> str:
    """Where an artifact is on this machine; nothing when it is not here."""
    try:
        if signature(Path(artifact["path"])) == artifact["signature"]:
            return str(artifact["path"])
    except OSError:
        pass
    here = kept(artifact["digest"])
    return str(here) if here.exists() else ""


def receive(artifact: dict[str, Any], chunk: bytes, offset: int, last: bool) -> str:
    """Take a piece of an artifact's tar file; after the last one it is unpacked, or refused."""
    final = kept(artifact["digest"]).parent
    parcel = cache() / "tmp" / f"{final.name}-{socket.gethostname()}-{os.getpid()}.tar"
    with parcel.open("r+b" if offset else "wb") as out:
        out.seek(offset)
        out.write(chunk)
    if not last:
        return ""
    unpacked = parcel.with_suffix("")
    try:
        with parcel.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != artifact["digest"]:
                return "it arrived damaged"
        with tarfile.open(parcel) as tar:
            tar.extractall(unpacked, filter="data")
        os.sync()  # what has its final name is never looked at again
        try:
            unpacked.rename(final)
        except OSError:
            if not final.exists():  # else another machine that has this folder was first
                raise
    finally:
        parcel.unlink(missing_ok=True)
        shutil.rmtree(unpacked, ignore_errors=True)
    return ""


def take(artifact: dict[str, Any], chunk: bytes, offset: int, last: bool) -> str:
    """As `receive`, but what hinders it is said, too: a worker that raises seems to be gone."""
    try:
        return receive(artifact, chunk, offset, last)
    except OSError as error:
        return f"{socket.gethostname()}: {error}"


def play(task: dict[str, Any]) -> dict[str, Any]:
    """Play a unit in a process of its own; or say which artifacts are lacking here."""
    from distributed import get_worker

    address = get_worker().address
    places = {one["name"]: place(one) for one in task["artifacts"]}
    lacking = [name for name, where in places.items() if not where]
    if lacking:
        return {"lacks": lacking, "worker": address}
    began = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        usage = _run([sys.executable, "-P", "-m", "lab.sweep.unit"],
                     json.dumps({**task, "places": places}), places["lab"], out, err)
        said, errors = (_text(file) for file in (out, err))
    if not said:
        raise RuntimeError(f"the unit failed: {errors[-TAIL:] or 'it said nothing'}")
    return {"runs": json.loads(said), "core_s": usage, "wall_s": time.monotonic() - began,
            "worker": f"{socket.gethostname()} {address}"}


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace").strip()


def _run(argv: list[str], text: str, lab: str, out: IO[bytes], err: IO[bytes]) -> float:
    """Seconds of CPU time that the command took, with all that it started. It ends with us."""
    library = ctypes.CDLL(None)
    child = subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=out, stderr=err,
        env={**os.environ, "PYTHONPATH": lab},
        preexec_fn=lambda: library.prctl(1, signal.SIGKILL))  # noqa: PLW1509
    assert child.stdin
    # A unit that dies at once reads nothing: its status and what it said tell why.
    with contextlib.suppress(BrokenPipeError), child.stdin as pipe:
        pipe.write(text.encode())
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime
