"""How many tokens of keys and values fit into memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from foreword.errors import InvalidField

SLACK = 2
"""Buffers of keys and values double when they are full, so that up to half of each is unused."""


def token_bytes(config: Any, itemsize: int) -> int:
    """Return the bytes of one token's keys and values, from the text config of a model and the size of its numbers."""
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return int(2 * config.num_hidden_layers * heads * size * itemsize)


def tokens_that_fit(free_bytes: int, share: float, *, token_bytes: int) -> int:
    """Return how many tokens of `token_bytes` fit into a share of the memory; raises InvalidField if none does."""
    tokens = int(free_bytes * share) // (token_bytes * SLACK)
    if tokens < 1:
        wanted = f"a share of {free_bytes} free bytes that holds a token of {token_bytes} bytes"
        raise InvalidField("memory_share", share, wanted)
    return tokens


def available_bytes(meminfo: Path = Path("/proc/meminfo"), group: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the memory that this process may still take: what the machine has left, and its control group."""
    fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
    available = int(fields["MemAvailable"].split()[0]) * 1024
    limit, used = group / "memory.max", group / "memory.current"
    if limit.is_file() and used.is_file() and (most := limit.read_text().strip()) != "max":
        available = min(available, max(0, int(most) - int(used.read_text())))
    return available
