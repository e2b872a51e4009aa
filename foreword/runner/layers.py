"""What there is to know of the layers of a model: what they leave in the cache, and how they attend."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CacheShape:
    """What the cache of a model looks like."""

    layers: int
    groups: int
    """Heads of keys and values."""
    size: int
    """Dimension of a head."""

    def token_bytes(self, itemsize: int) -> int:
        """Return the bytes of one token's keys and values."""
        return 2 * self.layers * self.groups * self.size * itemsize


@dataclass(frozen=True, slots=True)
class Manner:
    """How a layer attends."""

    scale: float
    window: int = 0
    """A row at position i sees i - window + 1 … i; all up to i where it is 0."""
    softcap: float = 0.0
    """Bounds scores by tanh; 0 does not."""
