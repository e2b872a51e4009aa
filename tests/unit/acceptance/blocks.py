"""Small laws and blocks that tests of the rules share."""

import numpy as np

from foreword.laws.law import Law
from foreword.protocol.messages import SparseCounts, TargetKeys

KEYS = TargetKeys(match=b"m" * 16, emit=b"e" * 16, coin=b"c" * 16)


def dense(*p: float) -> Law:
    """Return the dense law of these probabilities."""
    return Law(None, np.array(p, dtype=np.float64))


def sparse(p: dict[int, float]) -> Law:
    """Return the sparse law of these probabilities."""
    ids = sorted(p)
    return Law(np.array(ids, dtype=np.int32), np.array([p[i] for i in ids]))


def counts(*parts: int) -> SparseCounts:
    """Return the counts law of ids 0, 1, 2, …; the parts sum to a power of two."""
    return SparseCounts(tuple(range(len(parts))), parts, sum(parts).bit_length() - 1)
