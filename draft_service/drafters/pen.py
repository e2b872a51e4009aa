"""A block in the making, between two messages about its session.

Drafting is the innermost loop of the service, so what a step draws is gathered here, in a record that changes, and
becomes one transition of the session's state when the block is complete or a message needs to see it.
"""

from __future__ import annotations

from draft_service.core.state import Session
from draft_service.core.writing import Draw, Drawn, draw
from foreword.protocol.messages import SparseCounts
from foreword.protocol.words import Drafter
from foreword.values import replace


class Pen:
    """What the next step of one session does, and what its last steps drew."""

    __slots__ = (
        "_before",
        "_confidence",
        "_drafter",
        "_laws",
        "_stop_ids",
        "_work",
        "cached",
        "digest",
        "ids",
        "left",
        "lookup_threshold",
        "position",
        "round",
        "rows",
        "rule",
        "session",
        "slot",
        "threshold",
    )

    def __init__(self, slot: int, session: Session) -> None:
        assert session.writing is not None
        self._work = work = draw(session)
        self.slot = slot
        self.session = session
        self.cached = work.cached
        """How much of the slot's cache stands; what is beyond it is forgotten before a step."""
        self.rows = work.rows
        """Tokens that enter the cache next."""
        self.position = work.position
        """Output position of the next candidate."""
        self.round = work.round
        self.digest = work.digest
        """Digest of the tokens that the block assumes."""
        self.rule = work.rule
        self.left = work.left
        """How many candidates the block may still get."""
        self.ids: tuple[int, ...] = ()
        """What was drawn since the session's state was last brought up to date."""
        self.threshold = session.stop_threshold
        """Estimated survival under which the block ends; 0 never does, and nobody needs a confidence."""
        self.lookup_threshold = session.lookup_threshold
        """The same for a block that is looked up."""
        self._stop_ids = frozenset(session.law.stop_ids)
        self._laws: tuple[SparseCounts, ...] | None = ()
        self._before = session.writing.survival
        self._confidence = 1.0
        self._drafter: Drafter | None = None

    @property
    def begins(self) -> bool:
        """Whether the next candidate is the first of its block."""
        return not self.ids and (self.session.writing is None or not self.session.writing.ids)

    def add(self, drawn: Drawn) -> bool:
        """Take what a step drew; return whether the block is complete."""
        ids = drawn.ids
        self.cached += len(self.rows)
        self.rows = ids
        if not ids:
            return True
        if drawn.laws is None:
            self._laws = None
        elif self._laws is not None:
            self._laws += drawn.laws
        self.ids += ids
        self._drafter = drawn.drafter
        self.position += len(ids)
        self.left -= len(ids)
        self._confidence *= drawn.confidence
        if drawn.stop or self.left <= 0 or self._before * self._confidence < self.threshold:
            return True
        return not self._stop_ids.isdisjoint(ids)

    def gathered(self, *, complete: bool) -> tuple[Draw, Drawn]:
        """Return all steps since the start as the work and result of one, for `core.writing.drawn`."""
        entered = (self._work.rows + self.ids)[: self.cached - self._work.cached]
        result = Drawn(self.ids, self._laws, stop=complete, confidence=self._confidence, drafter=self._drafter)
        return replace(self._work, rows=entered), result
