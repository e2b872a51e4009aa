"""Draws from logits in one loop, which real models bring with what compiles it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from foreword.laws.law import Ids
from foreword.laws.parameters import LawParameters
from foreword.protocol.messages import SparseCounts
from foreword.runner.port import Logits


class Coupled(Protocol):
    """Draws with the target's noise, as `foreword.compiled.coupled.draw_coupled` does."""

    def __call__(
        self, row: Logits, ids: Ids, law: LawParameters, key: bytes, position: int
    ) -> tuple[int, float] | None:
        """Return the id and its lead; None for a row that has no law."""
        ...


class Counted(Protocol):
    """Draws from counts, as `foreword.compiled.counted.draw_counted` does."""

    def __call__(
        self, row: Logits, ids: Ids, law: LawParameters, number: int, *, bits: int, mass: float, cap: int
    ) -> tuple[int, SparseCounts, float] | None:
        """Return the id, the counts and the lead of the first; None for a row that has no law."""
        ...


class Draws(NamedTuple):
    """Both."""

    coupled: Coupled
    counted: Counted


def compiled_draws(ids: Ids) -> Draws:
    """Return them ready: what is compiled at its first use would make a block late."""
    from foreword.compiled.counted import draw_counted
    from foreword.compiled.coupled import draw_coupled

    row = np.zeros(len(ids), np.float32)
    for law in (LawParameters(), LawParameters(top_p=0.5)):
        draw_coupled(row, ids, law, bytes(16), 0)
        draw_counted(row, ids, law, 0, bits=12, mass=1.0, cap=len(ids))
    return Draws(draw_coupled, draw_counted)
