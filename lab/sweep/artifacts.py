# SPDX-License-Identifier: GPL-2.0-only
"""What workers need: kernels, images, the emulator and the lab, each named by its content.

An artifact is a file or a folder, and its name is the hash of a tar file of it that is the same
wherever it is made.
"""

import hashlib
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.build.images import Images
from lab.core import content, paths
from lab.core.errors import LabError
from lab.sweep import worker

CHUNK = 8 << 20
"""Bytes that travel at a time."""
LAB = ("kernel", "lab")
"""Folders of the repository that a worker needs."""


@dataclass(frozen=True)
class Artifact:
    """One of them, as workers are told of it."""

    name: str
    digest: str
    """SHA-256 of its tar file."""
    path: str
    """Where the client has it; it never changes there."""
    signature: list[int]


def artifact(name: str, path: Path) -> Artifact:
    """A file or a folder that stays as it is."""
    return Artifact(name, _digest({worker.INSIDE: path}), str(path), worker.signature(path))


def frozen(name: str, folders: Mapping[str, Path]) -> Artifact:
    """Folders that somebody may edit: what is in them now, copied into the cache."""
    members = {f"{worker.INSIDE}/{inside}": path for inside, path in folders.items()}
    digest = _digest(members)
    kept = worker.kept(digest)
    if not kept.exists():
        send({"digest": digest}, members, worker.receive)
    return artifact(name, kept)


def _digest(members: Mapping[str, Path]) -> str:
    sums = hashlib.sha256()
    for chunk in stream(members):
        sums.update(chunk)
    return sums.hexdigest()


def of(files: Images) -> tuple[list[Artifact], dict[str, Any]]:
    """All that units need of these images, and what a unit is told of them."""
    program, *words = files.emulator
    firmware = {f"firmware-{place}": Path(word)
                for place, word in enumerate(word for word in words if word != "-L")}
    found = {"host-kernel": files.host_kernel, "guest-kernel": files.guest_kernel,
             "host-image": files.host_image, "guest-image": files.guest_image,
             "emulator": Path(program), **firmware}
    for other in files.others:
        found |= {f"kernel-{other.variant}": other.kernel, f"image-{other.variant}": other.image}
    told = {"kernel": files.kernel, "base_version": files.base_version,
            "config_hash": files.config_hash, "qemu": files.qemu, "firmware": [*firmware],
            "others": [other.variant for other in files.others]}
    return [frozen("lab", {name: paths.ROOT / name for name in LAB}),
            *(artifact(name, path) for name, path in found.items())], told


def stream(members: Mapping[str, Path]) -> Iterator[bytes]:
    """The tar file of files and folders in pieces: the same members give the same bytes."""
    for name, path in members.items():
        inside = content.files_below(path) if path.is_dir() else [""]
        for one in inside:
            file = path / one if one else path
            info = tarfile.TarInfo(f"{name}/{one}" if one else name)
            info.size = file.stat().st_size
            info.mode = 0o755 if file.stat().st_mode & 0o100 else 0o644
            yield info.tobuf()
            with file.open("rb") as source:
                while chunk := source.read(CHUNK):
                    yield chunk
            yield b"\0" * (-info.size % tarfile.BLOCKSIZE)
    yield b"\0" * (2 * tarfile.BLOCKSIZE)


def send(told: dict[str, Any], members: Mapping[str, Path],
         put: Callable[[dict[str, Any], bytes, int, bool], str]) -> None:
    """Bring an artifact to a worker through `put`, such as `worker.receive`.

    `told` names its digest. Raises LabError when it was refused.
    """
    offset, held = 0, bytearray()

    def flush(last: bool) -> None:
        nonlocal offset
        if wrong := put(told, bytes(held), offset, last):
            raise LabError(f"an artifact could not be sent: {wrong}")
        offset += len(held)
        held.clear()

    for piece in stream(members):
        held += piece
        if len(held) >= CHUNK:
            flush(False)
    flush(True)
