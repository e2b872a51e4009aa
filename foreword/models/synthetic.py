"""Parameters of a synthetic model: real laws over a small vocabulary, without weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

from foreword.errors import InvalidField

SMALLEST_VOCABULARY = 8
"""The draft names four choices beside the target's own, and the end of text may take one more."""


@dataclass(frozen=True, slots=True)
class SyntheticModel:
    """What a synthetic model is; a target and a draft with equal `vocabulary`, `seed` and `eos` make a pair.

    A forward pass of R rows takes step_ms + slope_ms·max(0, R - knee) milliseconds.
    """

    vocabulary: int = 64
    step_ms: float = 20.0
    slope_ms: float = 0.0
    """Milliseconds for every row above the knee."""
    knee: int = 16
    """Rows up to which a pass takes the same time."""
    agreement: float = 0.8
    """At temperature 0, P(draft's argmax = target's argmax); above it, Σ min(p, q) at every position."""
    seed: int = 1
    context: int = 4096
    """Most tokens of one sequence."""
    eos: float = 0.0
    """Probability, independent by context, that the text ends there; 0 means never, and no id is kept for it."""

    letters: int = 0
    """1: ids are printable letters and, behind those, pairs of letters; 0: ids are words of their own."""

    @property
    def eos_id(self) -> int | None:
        """The id that ends the text, the last one; None where it never ends."""
        return self.vocabulary - 1 if self.eos > 0.0 else None

    def validate(self) -> SyntheticModel:
        """Return self, or raise InvalidField for the first value that is out of its range."""
        smallest = SMALLEST_VOCABULARY
        if not smallest <= self.vocabulary <= 1 << 20:
            raise InvalidField("synthetic vocab", self.vocabulary, f"a whole number from {smallest} to {1 << 20}")
        for name, value in (("step_ms", self.step_ms), ("slope_ms", self.slope_ms)):
            if not (math.isfinite(value) and 0.0 <= value <= 60_000.0):
                raise InvalidField(f"synthetic {name}", value, "milliseconds from 0 to 60000")
        if self.letters not in (0, 1):
            raise InvalidField("synthetic letters", self.letters, "0 or 1")
        if self.knee < 0:
            raise InvalidField("synthetic knee", self.knee, "a whole number from 0")
        for name, value in (("agreement", self.agreement), ("eos", self.eos)):
            if not 0.0 <= value <= 1.0:
                raise InvalidField(f"synthetic {name}", value, "a number from 0 to 1")
        if not 0 <= self.seed < 1 << 64:
            raise InvalidField("synthetic seed", self.seed, "a whole number from 0 to 2**64 - 1")
        if not 1 <= self.context <= 1 << 24:
            raise InvalidField("synthetic context", self.context, f"a whole number from 1 to {1 << 24}")
        return self
