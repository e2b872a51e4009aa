"""What a client is told of how γ was chosen."""

from __future__ import annotations

from foreword.protocol.generation import GammaChoice
from orchestrator.control.adaptive import Choice, Why

_US = 1e6


UNUSED = "unused"
"""Why γ is 0 where no block was ever asked for: there was no draft, or the text was over before."""


def explained(choice: Choice, *, asked: bool) -> GammaChoice:
    """Return a choice in the words of the public API; `asked`: whether any block was."""
    cost = choice.cost
    if choice.why is Why.START and not asked:
        return GammaChoice(0, UNUSED)
    if cost is None:
        return GammaChoice(choice.gamma, choice.why.value)
    return GammaChoice(
        gamma=choice.gamma,
        why=choice.why.value,
        fixed_us=cost.fixed_us,
        candidate_us=cost.candidate_us,
        plain_us=choice.plain_us or 0.0,
        price=cost.price,
        threshold=choice.threshold,
        survival=choice.kept,
        tokens_per_s=tuple(rate * _US for rate in choice.rates),
        lookup_threshold=choice.lookup_threshold,
    )
