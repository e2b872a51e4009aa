"""What a client is told of how γ was chosen."""

from __future__ import annotations

from foreword.protocol.generation import GammaChoice
from orchestrator.control.adaptive import Choice

_US = 1e6


def explained(choice: Choice) -> GammaChoice:
    """Return a choice in the words of the public API."""
    cost = choice.cost
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
