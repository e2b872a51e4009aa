"""What a group of ranks is told, as plain values; nothing here needs Ray or torch."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from target_service.engine.run import EngineSettings

GROUP_ENTRY = "target_service.tensor_parallel.run:serve"
"""The entry of the engine process of a group."""
STALLED_S = 300.0
"""How long the others wait for a rank in the midst of a pass before they give it up."""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """How many ranks, and where."""

    size: int
    ray_address: str = ""
    """Cluster to join; empty starts one on this machine."""
    device: str = "cpu"
    """cpu, cuda, or auto: GPUs if the cluster has one for every rank. Ray chooses which."""
    threads: int = 0
    """Threads of each rank; 0 shares out the cores of its machine among the ranks there."""
    start_timeout_s: float = 600.0

    @property
    def rank_cpus(self) -> int:
        """Cores that Ray sets aside for a rank."""
        return max(1, self.threads)

    @property
    def cpus(self) -> int:
        """Cores that Ray sets aside for all ranks."""
        return self.size * self.rank_cpus


@dataclass(frozen=True, slots=True)
class GroupedSettings:
    """What the engine process of a group is told."""

    engine: EngineSettings
    group: GroupSettings


def ray_environment(ray_address: str) -> dict[str, str]:
    """Return what the environment of an engine that uses Ray has to hold beside the usual.

    A cluster of our own asks for a secret, so that no other user of the machine can run code in it; reports no usage
    to anybody; and leaves it to the kernel to end processes when memory runs out. Others set up one that is joined.
    """
    environment = {"RAY_USAGE_STATS_ENABLED": "0"}
    if not ray_address:
        environment |= {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_memory_monitor_refresh_ms": "0",
            "RAY_enable_worker_prestart": "0",
        }
    return environment
