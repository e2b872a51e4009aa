"""When sessions that decode plainly look whether blocks would pay by now."""

from __future__ import annotations

from enum import Enum, auto

_SHARE = 0.01
"""Of the time that may be lost by looking."""
LOOK_ROUNDS = 3
"""Rounds of a look."""
_LEAST_US = 200_000
_LONG_US = 200_000
"""Of a round that a look has no more than one of."""
_WELL_US = 10_000_000
"""After so long without a question blocks have paid meanwhile, and the first looks may take more again."""


class Doubt(Enum):
    """What speaks against what was measured of blocks."""

    NONE = auto()
    PASSING = auto()
    """They waited for steps, as they do while sessions are not in step, or rounds have become longer lately."""
    TOGETHER = auto()
    """If all sessions took them, without waiting for each other's steps, all would gain."""
    LATE = auto()
    """The last one did not come in time; what was measured is how long it was waited for."""
    FEW = auto()
    """So few were measured that a single slow one may be all."""


_FIRST_SHARES = {Doubt.PASSING: 0.05, Doubt.TOGETHER: 0.2, Doubt.LATE: 0.2}
"""Of the time that the first look may take."""


class Probing:
    """Opens a short window now and then, the more seldom the more it costs; of all sessions on one link.

    All of them look at the same time: a block alone among plain steps waits for the one that is running, which blocks
    that come together do not, so that one session after the other would find that it does not pay.
    """

    def __init__(self) -> None:
        self._closed_us: int | None = None
        self._until_us = 0
        self._looks = 0
        self._asked_us = 0

    def open(self, now_us: int) -> bool:
        """Whether a look is being taken."""
        return now_us < self._until_us

    def due(self, now_us: int, *, lost_us: float, round_us: float, doubt: Doubt = Doubt.NONE) -> bool:
        """Whether a round that takes so long, and loses so much of it, may be tried now.

        With some doubt the first looks may take more, each half of the one before; when next to nothing is known, one
        may take what it takes, for a round.
        """
        if self.open(now_us):
            return True
        if self._closed_us is None:
            self._closed_us = now_us
        if now_us - self._asked_us > _WELL_US:
            self._looks = 0
        self._asked_us = now_us
        share = max(_SHARE, _FIRST_SHARES.get(doubt, 0.0) / 2**self._looks)
        rounds = 1 if doubt is Doubt.FEW or round_us > _LONG_US else LOOK_ROUNDS
        wait_us = 0.0 if doubt is Doubt.FEW else rounds * lost_us / share
        if now_us - self._closed_us < max(_LEAST_US, wait_us):
            return False
        self._looks += 1
        self._closed_us = self._until_us = now_us + round(rounds * round_us)
        return True
