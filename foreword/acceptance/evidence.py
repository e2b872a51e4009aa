"""What a target says about a block, and what an orchestrator makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from foreword.errors import ProtocolFault


@dataclass(frozen=True, slots=True)
class Evidence:
    """The target's evidence about a block of γ candidates.

    `acceptance` has h for each candidate, from 0 to 1. `emit[n]` is the token that follows if n candidates are kept,
    None only where that cannot happen; it has γ + 1 entries. `ratios` are p/q of each candidate, None under `match`.
    """

    acceptance: tuple[float, ...]
    emit: tuple[int | None, ...]
    ratios: tuple[float, ...] | None = None

    def validate(self) -> Evidence:
        """Return self, or raise ProtocolFault if this cannot be a target's evidence."""
        if len(self.emit) != len(self.acceptance) + 1:
            wanted = len(self.acceptance) + 1
            raise ProtocolFault(
                f"evidence.emit: got {len(self.emit)} tokens, wanted {wanted}, one more than candidates"
            )
        for i, h in enumerate(self.acceptance):
            if not 0.0 <= h <= 1.0:
                raise ProtocolFault(f"evidence.acceptance[{i}]: got {h!r}, wanted a number from 0 to 1")
        return self


@dataclass(frozen=True, slots=True)
class Verdict:
    """Keep the first `kept` candidates, then emit `emitted`."""

    kept: int
    emitted: int

    def committed(self, ids: Sequence[int]) -> tuple[int, ...]:
        """Return the tokens that this verdict commits, given the block's candidates."""
        return (*ids[: self.kept], self.emitted)
