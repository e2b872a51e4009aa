"""Draft laws of a block, ratios, and residual laws."""

from __future__ import annotations

from collections.abc import Sequence

from foreword.errors import InvalidField
from foreword.laws.counts import counts_law
from foreword.laws.law import Law, TargetLaw
from foreword.protocol.messages import BlockLaw, OneHot


def draft_laws(block_law: BlockLaw | None, ids: Sequence[int]) -> list[Law]:
    """Return the law q that each candidate was drawn from; raise InvalidField where there is none."""
    if isinstance(block_law, OneHot):
        return [Law.one_hot(token) for token in ids]
    if block_law is None or len(block_law) != len(ids):
        seen = "none" if block_law is None else f"{len(block_law)} laws"
        raise InvalidField("law", seen, f"one for each of {len(ids)} candidates under this rule")
    return [counts_law(counts) for counts in block_law]


def ratio(p: TargetLaw, q: Law, token: int) -> float:
    """Return p/q of a drawn token; raise InvalidField if q says it cannot be drawn."""
    drawn = q.probability_of(token)
    if drawn <= 0.0:
        raise InvalidField("candidate", token, "a token on the support of its own law")
    return p.probability_of(token) / drawn


def residual(p: TargetLaw, q: Law, scale: float) -> tuple[TargetLaw, float]:
    """Return the law proportional to max(0, scale·p − q), and the sum of that.

    Where the sum is 0, the law is p: rounding alone leads there, and then the residual is as good as never drawn.
    """
    return p.residual(q, scale)
