"""Prompt lookup inside the target: what followed an earlier occurrence of the text's end."""

from __future__ import annotations

from collections.abc import Sequence

from foreword.lookup.automaton import SuffixAutomaton
from foreword.protocol.messages import OneHot
from foreword.protocol.words import Drafter
from target_service.core.state import Guess
from target_service.local.port import Wish

SHORTEST = 2
"""Tokens at the end of the text that must have come before."""
LONGEST_CONTEXT = 1 << 16
"""An index takes some 400 bytes a token; longer sessions go without."""


class LocalLookup:
    """An index for each slot. Candidates are certain: their laws are one-hot, a function of the text alone."""

    def __init__(self) -> None:
        self._indexes: dict[int, SuffixAutomaton] = {}

    @property
    def kind(self) -> Drafter:
        """Lookup."""
        return Drafter.LOOKUP

    @property
    def longest_context(self) -> int:
        """Most tokens of one session."""
        return LONGEST_CONTEXT

    @property
    def at_once(self) -> int:
        """As many as take a few milliseconds."""
        return 512

    def guess(self, wishes: Sequence[Wish]) -> list[Guess]:
        """Return the continuations; none where the end of the text is new."""
        return [Guess(self._continuation(wish), OneHot(), Drafter.LOOKUP) for wish in wishes]

    def close(self, slot: int) -> None:
        """Forget a text."""
        self._indexes.pop(slot, None)

    def _continuation(self, wish: Wish) -> tuple[int, ...]:
        index = self._indexes.get(wish.slot)
        if index is None:
            index = self._indexes[wish.slot] = SuffixAutomaton(SHORTEST)
        index.cut(wish.stands)
        index.extend(wish.new)
        return index.continuation(wish.most).ids if wish.most else ()
