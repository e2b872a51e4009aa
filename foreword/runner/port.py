"""The port that cached forward passes sit behind, for targets and drafts alike.

A runner holds slots. A slot is a sequence of tokens whose keys and values are cached. `forward` appends rows of many
slots in one pass; rollback is `truncate`, a change of length and nothing else. Memory is counted in pages. A slot may
begin with what others have computed of the same tokens: `commit` says which tokens may be used again, `adopt` uses
them. A runner knows logits: what is sampled from them is the business of `foreword.laws`. One thread uses a runner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from foreword.protocol.messages import Tokens

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


@dataclass(frozen=True, slots=True)
class Memory:
    """A runner's cache in pages; one that cannot share pages, or has none, counts what it has in the same terms."""

    page_size: int
    """Tokens of a page."""
    pages: int
    """Pages in all."""
    free: int
    """Pages that slots can be given: unused, or kept only so that their content may be adopted."""


@runtime_checkable
class Runner(Protocol):
    """Cached forward passes over many slots.

    Every method raises InvalidField for a slot, id or length that is out of range, before the device sees it and
    without any change. `forward` raises Full, also without any change, when there are fewer free pages than its batch
    wants, and EngineFailure when the pass itself fails; the slots keep their lengths.
    """

    @property
    def vocabulary_size(self) -> int:
        """V: columns of the logits; ids are below it."""

    @property
    def longest_context(self) -> int:
        """Most tokens that a slot can hold."""

    @property
    def resident_tokens(self) -> int:
        """Tokens cached over all slots; those in shared pages count for each slot."""

    @property
    def memory(self) -> Memory:
        """The cache in pages, as it is now."""

    def open(self, slot: int, *, salt: bytes = b"") -> None:
        """Start an empty slot under a number that is not in use; slots share beginnings under the same salt only."""

    def close(self, slot: int) -> None:
        """Free a slot; its number may be used again, and what was committed of it adopted while it is kept."""

    def length(self, slot: int) -> int:
        """Return how many tokens the slot holds."""

    def truncate(self, slot: int, length: int) -> None:
        """Forget the tokens from position `length` on."""

    def adopt(self, slot: int, tokens: Tokens) -> int:
        """Let an empty slot begin with what is cached of `tokens`; return the length it holds then, 0 without a hit.

        Whole pages, and always fewer tokens than given, so that there is a row to get logits from.
        """

    def fork(self, source: int, slot: int, length: int) -> None:
        """Let an empty slot begin with the first `length` tokens of another slot of the same salt.

        Both share the pages of these tokens, the last one too where they fill it in part: who writes into it gets a
        copy. From then on neither slot sees what the other does.
        """

    def commit(self, slot: int, tokens: Tokens) -> None:
        """Say that the text of the slot begins with `tokens` for good; full pages of them may be adopted by others.

        `tokens` may be more than the slot holds: then what it holds counts. What comes behind them in the slot, and
        what is rolled back, is never adopted.
        """

    def pages_wanted(self, slot: int, length: int) -> int:
        """Return how many free pages it takes for the slot to hold `length` tokens, copies of shared ones included."""

    def forward(self, batch: Sequence[Rows]) -> list[Logits]:
        """Append all rows in one pass, at most one Rows a slot; return logits in the order of the batch."""
