"""Processes as /proc lists them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Process:
    """A process, told from a later one of the same number by when it began."""

    pid: int
    parent: int
    began: int
    command: str


def descendants(pid: int) -> list[Process]:
    """Return all processes that descend from `pid`, in the order of their numbers."""
    everyone = [found for path in Path("/proc").glob("[0-9]*") if (found := _read(path)) is not None]
    family = {pid}
    while more := {one.pid for one in everyone if one.parent in family} - family:
        family |= more
    return sorted((one for one in everyone if one.pid in family - {pid}), key=lambda one: one.pid)


async def gone(processes: Sequence[Process], *, within_s: float = 120.0) -> list[Process]:
    """Return those that are still there after a while."""
    left = list(processes)
    for _ in range(int(within_s / 0.1)):
        left = [one for one in left if (now := _read(Path(f"/proc/{one.pid}"))) and now.began == one.began]
        if not left:
            break
        await asyncio.sleep(0.1)
    return left


def _read(path: Path) -> Process | None:
    try:
        fields = (path / "stat").read_text().rpartition(")")[2].split()
        command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return Process(int(path.name), int(fields[1]), int(fields[19]), command)
