"""chain64: a 64-bit digest of a token sequence, chained token by token.

Each step is the finaliser of splitmix64 (Steele, Lea, Flood 2014) over the previous digest and the token. It names a
sequence so that peers can tell whether they speak of the same one; it is no defence against a peer that looks for
collisions, who could only spoil its own blocks.
"""

from __future__ import annotations

from collections.abc import Iterable

EMPTY = 0x666F7265776F7264
"""Digest of no tokens."""

_MASK = 0xFFFFFFFFFFFFFFFF
_GAMMA = 0x9E3779B97F4A7C15


def extend(digest: int, tokens: Iterable[int]) -> int:
    """Return the digest of the sequence that `digest` names, followed by `tokens`."""
    for token in tokens:
        z = (digest ^ (token + 1) * _GAMMA) & _MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        digest = z ^ (z >> 31)
    return digest
