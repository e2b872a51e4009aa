"""The machine that figures come from."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

_PACKAGES: Final = ("foreword", "grpcio", "protobuf", "numpy", "numba", "torch", "transformers")
_CPUINFO: Final = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True)
class Machine:
    """What a reader needs to know to compare figures."""

    cpu: str
    cores: int
    """Cores that this process may use."""
    memory_gib: float | None
    platform: str
    versions: dict[str, str]
    """Of Python and of packages; those that are not installed are left out."""


def this_machine() -> Machine:
    """Return what is known of the machine that this runs on."""
    return Machine(
        cpu=_cpu(),
        cores=_cores(),
        memory_gib=_memory_gib(),
        platform=platform.platform(),
        versions={"python": platform.python_version(), **_versions()},
    )


def load_average() -> float | None:
    """Return how many processes ran or waited over the last minute, on average; None where nobody knows."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def machine_json(machine: Machine, load_before: float | None, load_after: float | None) -> dict[str, Any]:
    """Return the machine as what JSON can say, with the load when the run began and when it ended."""
    return {
        "cpu": machine.cpu,
        "cores": machine.cores,
        "memory_gib": machine.memory_gib,
        "platform": machine.platform,
        "versions": machine.versions,
        "load_before": load_before,
        "load_after": load_after,
    }


def cpu_model(cpuinfo: str) -> str | None:
    """Return the model name in the text of /proc/cpuinfo, None if it has none."""
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if key.strip().lower() in ("model name", "cpu model", "hardware"):
            return value.strip() or None
    return None


def _cpu() -> str:
    known = cpu_model(_CPUINFO.read_text(encoding="utf-8", errors="replace")) if _CPUINFO.exists() else None
    return known or platform.processor() or platform.machine()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory_gib() -> float | None:
    if not {"SC_PAGE_SIZE", "SC_PHYS_PAGES"} <= set(getattr(os, "sysconf_names", ())):
        return None
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue  # an extra that is not installed
    return found
