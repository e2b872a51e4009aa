"""The leads of every session's last block, until the next one shows what came of its candidates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from draft_service.drafters.estimate import Acceptance
from draft_service.drafters.pen import Pen


@dataclass(slots=True)
class _Block:
    start: int
    """Length of the text before it."""
    drawn: list[tuple[int, float]] = field(default_factory=list)
    """Candidates, and by how much their law's first choice led its second."""


class Leads:
    """Estimates candidates by their leads, and learns from what the next block of a session begins with."""

    def __init__(self) -> None:
        self._acceptance = Acceptance()
        self._blocks: dict[int, _Block] = {}

    def begin(self, pen: Pen) -> None:
        """Take note of a block that begins; the text before it tells what came of the last one."""
        if not pen.begins:
            return
        last = self._blocks.get(pen.slot)
        if last is not None and last.drawn:
            self._learn(last, pen.session.context_from(last.start))
        self._blocks[pen.slot] = _Block(pen.session.length)

    def estimate(self, pen: Pen, token: int, lead: float) -> float:
        """Return the probability that a candidate is kept if those before it are, and remember it."""
        block = self._blocks[pen.slot]
        block.drawn.append((token, lead))
        return self._acceptance.estimate(len(block.drawn) - 1, lead)

    def take_over(self, slot: int, branch: int, context: Callable[[int], tuple[int, ...]]) -> None:
        """Let a session's block be the one that a branch wrote; `context` gives the text before it from a place on."""
        last, written = self._blocks.get(slot), self._blocks.pop(branch, None)
        if last is not None and last.drawn:
            self._learn(last, context(last.start))
        if written is not None:
            self._blocks[slot] = written

    def forget(self, slot: int) -> None:
        """Forget a session."""
        self._blocks.pop(slot, None)

    def _learn(self, block: _Block, came: tuple[int, ...]) -> None:
        """Learn up to the first candidate that did not come; what is behind it was drawn after another text."""
        for place, ((token, lead), real) in enumerate(zip(block.drawn, came, strict=False)):
            self._acceptance.observe(place, lead, kept=token == real)
            if token != real:
                return
