"""Integer-count laws: what a draft samples from and sends.

A draft truncates its law, rounds it to counts that sum to a power of two and samples from the counts, so that both
sides hold exactly the law that was drawn from (quantise, then sample: arXiv 2507.00605). Rounding after sampling would
bias the text.
"""

from __future__ import annotations

import numpy as np

from foreword.errors import InvalidField
from foreword.laws.law import Ids, Law, Probabilities
from foreword.laws.nucleus import pick, reaching, top_until
from foreword.protocol.messages import BlockLaw, OneHot, SparseCounts, Tokens

MAX_BITS = 16
"""Largest base-2 logarithm of a sum of counts."""


def to_counts(law: Law, *, bits: int = 12, mass: float = 0.995, cap: int = 128) -> SparseCounts:
    """Round a law to counts of at least 1 that sum to 2**bits.

    The support is the smallest set of likeliest tokens whose mass reaches `mass`, at most `cap` and 2**bits of
    them; counts are the nearest by largest remainders, ties to the lowest id. Raises InvalidField.
    """
    if not 1 <= bits <= MAX_BITS:
        raise InvalidField("bits", bits, f"1 to {MAX_BITS}")
    if cap < 1:
        raise InvalidField("cap", cap, "a whole number from 1")
    p = law.probabilities
    top, cumulated = top_until(p, mass, weigh=np.asarray, limit=min(cap, 1 << bits))
    size = min(reaching(cumulated, mass), int(np.count_nonzero(top)))
    kept = pick(p, size, float(top[size - 1]))
    counts = _apportion(p[kept], 1 << bits)
    return SparseCounts(tuple(kept.tolist() if law.ids is None else law.ids[kept].tolist()), tuple(counts), bits)


def sample(counts: SparseCounts, number: int) -> int:
    """Draw a token with a 64-bit number: exactly count / 2**total_bits each, by the number's top bits."""
    cumulated = np.cumsum(counts.counts)
    return counts.ids[int(cumulated.searchsorted(int(number) >> (64 - counts.total_bits), side="right"))]


def counts_law(counts: SparseCounts) -> Law:
    """Return counts as a law; the probabilities are exact, the sum being a power of two."""
    ids: Ids = np.array(counts.ids, dtype=np.int32)
    p: Probabilities = np.array(counts.counts, dtype=np.float64) * 2.0**-counts.total_bits
    if np.any(ids[1:] < ids[:-1]):
        order = ids.argsort()
        ids, p = ids[order], p[order]
    return Law(ids, p)


def validate(law: SparseCounts, candidate: int, vocabulary_size: int) -> None:
    """Raise InvalidField unless this is a law over the vocabulary under which the candidate can come."""
    if not 1 <= law.total_bits <= MAX_BITS:
        raise InvalidField("law.total_bits", law.total_bits, f"1 to {MAX_BITS}")
    if len(law.ids) != len(law.counts):
        raise InvalidField("law.counts", f"{len(law.counts)} counts", f"one for each of {len(law.ids)} ids")
    total = 1 << law.total_bits
    if min(law.counts, default=0) < 1:
        raise InvalidField("law.counts", min(law.counts, default=None), "counts of at least 1")
    if sum(law.counts) != total:
        raise InvalidField("law.counts", f"a sum of {sum(law.counts)}", f"2**{law.total_bits} = {total}")
    if min(law.ids) < 0 or max(law.ids) >= vocabulary_size:
        seen = min(law.ids) if min(law.ids) < 0 else max(law.ids)
        raise InvalidField("law.ids", seen, f"token ids from 0 to {vocabulary_size - 1}")
    if len(set(law.ids)) != len(law.ids):
        raise InvalidField("law.ids", "a repeated id", "each id once")
    if candidate not in law.ids:
        raise InvalidField("candidate", candidate, "a token on the support of its own law")


def validate_block(law: BlockLaw | None, ids: Tokens, vocabulary_size: int) -> None:
    """Raise InvalidField unless every candidate is in the vocabulary and has a law under which it can come.

    `law` is that of the whole block; None, which `match` allows, needs no check.
    """
    for token in ids:
        if not 0 <= token < vocabulary_size:
            raise InvalidField("ids", token, f"token ids from 0 to {vocabulary_size - 1}")
    if law is None or isinstance(law, OneHot):
        return
    if len(law) != len(ids):
        raise InvalidField("law", f"{len(law)} laws", f"one for each of {len(ids)} candidates")
    for one, token in zip(law, ids, strict=True):
        validate(one, token, vocabulary_size)


def _apportion(p: Probabilities, total: int) -> list[int]:
    # What rounds to less than 1 gets 1; the rest shares what is left in proportion.
    counts = np.ones(len(p), dtype=np.int64)
    rest = np.arange(len(p))
    while True:
        left = total - (len(p) - len(rest))
        quota = p[rest] * (left / p[rest].sum())
        if (small := quota < 1.0).any() and not small.all():
            rest = rest[~small]
            continue
        break
    counts[rest] = np.maximum(np.floor(quota), 1.0).astype(np.int64)
    spare = total - int(counts.sum())
    order = np.lexsort((rest, np.floor(quota) - quota))
    counts[rest[order[:spare]]] += 1
    return [int(c) for c in counts]
