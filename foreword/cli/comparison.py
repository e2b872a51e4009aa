"""The same prompt with and without a draft: what came out, how fast, and whether a difference is explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from foreword.cli.demo_prompts import DemoPrompt
from foreword.protocol.generation import Choice


@dataclass(frozen=True, slots=True)
class Outcome:
    """One prompt, greedy, decoded plainly and with drafts."""

    prompt: DemoPrompt
    plain: Choice
    drafted: Choice
    tolerance: float
    """Margin in nats up to which rounding explains a difference."""
    margin: float | None = None
    """The target's top-2 margin where the outputs part; None if they do not, or if it was not to be had."""

    @property
    def first_difference(self) -> int | None:
        """Output position where the outputs part; None if they are the same."""
        return first_difference(self.plain.ids, self.drafted.ids)

    @property
    def identical(self) -> bool:
        """Whether both outputs have the same ids."""
        return self.first_difference is None

    @property
    def explained(self) -> bool:
        """Whether a difference began at a near-tie, which arithmetic in another order may decide otherwise."""
        return not self.identical and self.margin is not None and self.margin <= self.tolerance

    @property
    def speedup(self) -> float | None:
        """Decoding rate with drafts over that without."""
        drafted, plain = self.drafted.decode_rate, self.plain.decode_rate
        return drafted / plain if drafted is not None and plain else None

    @property
    def acceptance_length(self) -> float | None:
        """Tokens emitted per round with drafts; None where no round had a candidate to verify."""
        return self.drafted.usage.acceptance_length

    def json(self) -> dict[str, Any]:
        """Return it as what JSON can say."""
        return {
            "id": self.prompt.id,
            "category": self.prompt.category,
            "identical": self.identical,
            "explained": self.explained,
            "first_difference": self.first_difference,
            "margin": self.margin,
            "tokens": self.drafted.usage.output_tokens,
            "acceptance_length": self.acceptance_length,
            "plain_tok_s": self.plain.decode_rate,
            "spec_tok_s": self.drafted.decode_rate,
            "speedup": self.speedup,
            "text": self.drafted.text,
            "usage": self.drafted.usage,
        }


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """Return the first position where two outputs differ, also where only one has ended; None if they are equal."""
    if one == other:
        return None
    pairs = zip(one, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def totals(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return sums and rates over all prompts; rates weigh every token alike."""
    drafted, plain = [o.drafted for o in outcomes], [o.plain for o in outcomes]
    verifications = sum(choice.usage.verifications for choice in drafted)
    accepted = sum(choice.usage.accepted_tokens for choice in drafted)
    plain_rate, drafted_rate = _rate(plain), _rate(drafted)
    return {
        "prompts": len(outcomes),
        "identical": sum(outcome.identical for outcome in outcomes),
        "explained": sum(outcome.explained for outcome in outcomes),
        "unexplained": sum(not outcome.identical and not outcome.explained for outcome in outcomes),
        "tokens": sum(choice.usage.output_tokens for choice in drafted),
        "acceptance_length": 1.0 + accepted / verifications if verifications else None,
        "plain_tok_s": plain_rate,
        "spec_tok_s": drafted_rate,
        "speedup": drafted_rate / plain_rate if drafted_rate and plain_rate else None,
    }


def _rate(choices: Sequence[Choice]) -> float | None:
    """Tokens per second after each first token."""
    tokens = sum(max(0, choice.usage.output_tokens - 1) for choice in choices)
    us = sum(choice.timings.total_us - choice.timings.first_token_us for choice in choices)
    return 1e6 * tokens / us if tokens and us > 0 else None
