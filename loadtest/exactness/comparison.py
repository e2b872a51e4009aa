"""Two texts that should be one: equal, parted at a near-tie, or different; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from foreword.protocol.generation import Usage


class Verdict(Enum):
    """How two outputs compare."""

    EQUAL = "equal"
    NEAR_TIE = "near tie"
    """They part where the first choice leads the second by less than arithmetic can tell."""
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One output against the one that it should be."""

    name: str
    tokens: int
    """Length of the wanted output."""
    parted_at: int | None = None
    """First output position that differs, also where only one has ended; None if they are equal."""
    margin: float | None = None
    """By how much the first choice leads there; None where it is not known."""
    tolerance: float = 0.0

    @property
    def verdict(self) -> Verdict:
        """How they compare."""
        if self.parted_at is None:
            return Verdict.EQUAL
        near = self.margin is not None and self.margin < self.tolerance
        return Verdict.NEAR_TIE if near else Verdict.DIFFERENT

    def json(self) -> dict[str, Any]:
        """Return it as what JSON can say."""
        facts = {"name": self.name, "tokens": self.tokens, "parted_at": self.parted_at, "margin": self.margin}
        return {**facts, "verdict": self.verdict.value}


@dataclass(frozen=True, slots=True)
class Tally:
    """Comparisons of one arm of a study."""

    arm: str
    comparisons: tuple[Comparison, ...]
    usages: tuple[Usage, ...] = ()
    """What the requests took, where services made the texts."""

    def count(self, verdict: Verdict) -> int:
        """Return how many comparisons came out so."""
        return Counter(one.verdict for one in self.comparisons)[verdict]

    @property
    def tokens(self) -> int:
        """Tokens that were compared."""
        return sum(one.tokens if one.parted_at is None else one.parted_at for one in self.comparisons)

    @property
    def unexplained(self) -> tuple[Comparison, ...]:
        """Those that differ without a near-tie."""
        return tuple(one for one in self.comparisons if one.verdict is Verdict.DIFFERENT)

    def json(self) -> dict[str, Any]:
        """Return counts, and every comparison that is not equal."""
        return {
            "arm": self.arm,
            "texts": len(self.comparisons),
            "tokens": self.tokens,
            **{verdict.value.replace(" ", "_"): self.count(verdict) for verdict in Verdict},
            "verifications": sum(usage.verifications for usage in self.usages),
            "accepted": sum(usage.accepted_tokens for usage in self.usages),
            "took_another_draft": sum(usage.drafts_used > 1 for usage in self.usages),
            "parted": [one.json() for one in self.comparisons if one.verdict is not Verdict.EQUAL],
        }


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """Return the first position where two outputs differ, also where only one has ended; None if they are equal."""
    shorter = min(len(one), len(other))
    at = next((i for i in range(shorter) if one[i] != other[i]), shorter)
    return None if at == len(one) == len(other) else at


def unexplained(tallies: Iterable[Tally]) -> list[Comparison]:
    """Return all comparisons that differ without a near-tie."""
    return [one for tally in tallies for one in tally.unexplained]
