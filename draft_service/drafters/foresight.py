"""The part of a drafter that can draft ahead: look behind every candidate of a block, and go on in several ways.

A way to go on is a branch: a slot of its own that begins with what another slot holds, and shares it. `step` of the
port draws for branches as it does for sessions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from draft_service.ahead.forecast import Outlook
from draft_service.core.state import Session
from draft_service.core.writing import Drawn
from draft_service.drafters.pen import Pen
from foreword.errors import ForewordError
from foreword.protocol.messages import Tokens


@dataclass(frozen=True, slots=True)
class LookJob:
    """Say what may come after every candidate of a block: `rows` enter the slot's cache after truncation to `cached`.

    They end with the candidates, and the token before them is among them.
    """

    slot: int
    session: Session
    """A block of it is complete."""
    cached: int
    rows: Tokens


@runtime_checkable
class Foresight(Protocol):
    """Drafts ahead; one thread uses it."""

    def branch(self, source: int, slot: int, length: int, *, salt: bytes = b"") -> None:
        """Open a branch that begins with the first `length` tokens of another slot of the same salt."""

    def look_ahead(
        self, pens: Sequence[Pen], jobs: Sequence[LookJob]
    ) -> tuple[list[Drawn | ForewordError], list[Outlook | ForewordError]]:
        """Draw for the pens of branches and look behind the candidates of blocks, in one pass; results in order.

        Raises as `step` does. A ranking leaves out the candidate at its place: it is not what comes instead of it.
        """

    def take_over(self, slot: int, branch: int, session: Session, prepared: Session, *, shipped: bool) -> bool:
        """Let a session go on in its slot as a branch has, which is closed.

        `session` has begun its block, `prepared` is the same with what the branch has drawn. Return whether the session
        goes on so: a drafter may have something better to go on with while nothing of the branch is drawn, and then
        nothing happens. What was drawn, and hence how far it got, has no say in that.
        """
