"""CPU time of the processes of a stack: what a round costs when the clock on the wall is disturbed by others."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")


def cpu_ns(pid: int, proc: Path = _PROC) -> int | None:
    """Return the nanoseconds that a process's threads have run; None where the kernel does not tell, or it is gone."""
    try:
        threads = list((proc / str(pid) / "task").iterdir())
        return sum(int((thread / "schedstat").read_text(encoding="ascii").split()[0]) for thread in threads)
    except (OSError, IndexError, ValueError):
        return None


def children(pid: int, proc: Path = _PROC) -> list[int]:
    """Return the processes that a process has started; none where the kernel does not tell."""
    try:
        threads = list((proc / str(pid) / "task").iterdir())
        return [int(child) for thread in threads for child in (thread / "children").read_text("ascii").split()]
    except (OSError, ValueError):
        return []


def family(services: Mapping[str, int | None]) -> dict[str, int]:
    """Return process ids by name: this process as the client, each service, and its first child as its engine."""
    found = {"client": os.getpid()}
    for name, pid in services.items():
        if pid is not None:
            found[name] = pid
            found.update({f"{name} engine": child for child in children(pid)[:1]})
    return found


def busy_ns(proc: Path = _PROC) -> int | None:
    """Return the nanoseconds that all cores together were busy since the machine started; None where nobody tells.

    Time that other guests of the same host took counts, waiting for a disk does not. It moves in steps of 10 ms.
    """
    try:
        first = (proc / "stat").read_text(encoding="ascii").split("\n", 1)[0]
        user, nice, system, _, _, *interrupts_and_stolen = map(int, first.split()[1:9])
    except (OSError, ValueError):
        return None
    ticks = user + nice + system + sum(interrupts_and_stolen)
    return ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def spent_ns(pids: Mapping[str, int]) -> dict[str, int]:
    """Return CPU time by name, for those that the kernel tells of."""
    return {name: spent for name, pid in pids.items() if (spent := cpu_ns(pid)) is not None}


def difference_ms(before: Mapping[str, int], after: Mapping[str, int], names: Iterable[str]) -> dict[str, float]:
    """Return the milliseconds between two readings, for names that are in both."""
    return {name: (after[name] - before[name]) / 1e6 for name in names if name in before and name in after}
