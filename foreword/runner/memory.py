"""How much memory there is."""

from __future__ import annotations

import os
from pathlib import Path


def available_bytes(meminfo: Path = Path("/proc/meminfo"), group: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the memory that this process may still take: what the machine has left, and its control group.

    A group is charged for the files that it has read, such as weights; what the kernel gives up of them when memory is
    wanted counts as free, as in the working set of Kubernetes.
    """
    if not meminfo.is_file():  # not Linux: all the memory that the machine has, in want of better
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
    available = int(fields["MemAvailable"].split()[0]) * 1024
    limit, used = group / "memory.max", group / "memory.current"
    if limit.is_file() and used.is_file() and (most := limit.read_text().strip()) != "max":
        taken = int(used.read_text()) - _unused_files(group / "memory.stat")
        available = min(available, max(0, int(most) - taken))
    return available


def _unused_files(stat: Path) -> int:
    """Return the bytes of files in a group's memory that nobody has used lately."""
    if not stat.is_file():
        return 0
    fields = dict(line.split() for line in stat.read_text().splitlines())
    return int(fields.get("inactive_file", 0))
