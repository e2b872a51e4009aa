"""The port that cached forward passes sit behind, for targets and drafts alike.

A runner holds slots. A slot is a sequence of tokens whose keys and values are cached. `forward` appends rows of many
slots in one pass; rollback is `truncate`, a change of length and nothing else. A runner knows logits: what is sampled
from them is the business of `foreword.laws`. One thread uses a runner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

Logits = npt.NDArray[np.float32]
"""Float32 [need, V]: row i belongs to the i-th of the last `need` tokens and scores what comes after it."""


@dataclass(frozen=True, slots=True)
class Rows:
    """What one slot appends in a forward pass."""

    slot: int
    tokens: tuple[int, ...]
    """At least one; appended to the slot's cached sequence."""
    need: int
    """How many of the last `tokens` want logits, from 0 to all."""
    temperature: float = 1.0
    """A hint of the temperature that the logits will meet; only synthetic drafts look at it, real models never."""


@runtime_checkable
class Runner(Protocol):
    """Cached forward passes over many slots.

    Every method raises InvalidField for a slot, id or length that is out of range, before the device sees it and
    without any change; `forward` raises EngineFailure when the pass itself fails, and the slots keep their lengths.
    """

    @property
    def vocabulary_size(self) -> int:
        """V: columns of the logits; ids are below it."""

    @property
    def longest_context(self) -> int:
        """Most tokens that a slot can hold."""

    @property
    def resident_tokens(self) -> int:
        """Tokens cached over all slots."""

    def open(self, slot: int) -> None:
        """Start an empty slot under a number that is not in use."""

    def close(self, slot: int) -> None:
        """Free a slot; its number may be used again."""

    def length(self, slot: int) -> int:
        """Return how many tokens the slot holds."""

    def truncate(self, slot: int, length: int) -> None:
        """Forget the tokens from position `length` on."""

    def forward(self, batch: Sequence[Rows]) -> list[Logits]:
        """Append all rows in one pass, at most one Rows a slot; return logits in the order of the batch."""
