"""When a session that decodes plainly looks whether a block would pay by now."""

from __future__ import annotations

_SHARE = 0.01
"""Of the time that may be lost by looking."""
_LEAST_US = 200_000


class Probing:
    """One round with a block now and then, the more seldom the more it costs.

    Of one session, or of all sessions between the same draft and target: what one of them finds out holds for all.
    """

    def __init__(self, link: Probing | None = None) -> None:
        self._link = link
        self._last_us: int | None = None

    def verified(self, now_us: int) -> None:
        """A block was verified."""
        self._last_us = now_us
        if self._link is not None:
            self._link.verified(now_us)

    def due(self, now_us: int, *, lost_us: float) -> bool:
        """Whether a round that loses so much may be taken now; asked while no block is ordered."""
        if self._last_us is None:
            self._last_us = now_us
        if now_us - self._last_us >= max(_LEAST_US, lost_us / _SHARE):
            return True
        return self._link is not None and self._link.due(now_us, lost_us=lost_us)
