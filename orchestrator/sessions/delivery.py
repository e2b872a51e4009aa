"""What a session decided on its way to the output: after what was sent, in a callback of its own."""

from __future__ import annotations

from collections import deque
from typing import Protocol

import structlog

from foreword.errors import ForewordError, ProtocolFault
from foreword.protocol.words import FinishReason
from orchestrator.core.state import Ended
from orchestrator.sessions.afterwards import Afterwards
from orchestrator.sessions.output import Decided, Meters, Output, Places

_log = structlog.stdlib.get_logger(__name__)


class Decider(Protocol):
    """The session whose output it is."""

    def places(self) -> Places:
        """Return what the session has used up to now."""

    def stopped(self, length: int) -> bool:
        """End the session at an output length, for a stop text; returns False if it has ended already."""

    def fail(self, error: ForewordError) -> None:
        """End the session with an error."""


class Delivery:
    """Hands tokens and the end over in order, so that detokenizing and writing never stand before a Commit."""

    def __init__(self, decider: Decider, output: Output, *, afterwards: Afterwards, meters: Meters) -> None:
        self._decider = decider
        self._output = output
        self._afterwards = afterwards
        self._meters = meters
        self._items: deque[Decided | Ended] = deque()
        self._scheduled = False
        self.error: ForewordError | None = None
        """What the end is told with, if it is no answer."""

    def add(self, item: Decided | Ended) -> None:
        """Give this to the output after what is running now, hence after what was sent is on its way."""
        self._items.append(item)
        if not self._scheduled:
            self._scheduled = True
            self._afterwards.call(self._deliver)

    def _deliver(self) -> None:
        self._scheduled = False
        try:
            self._deliver_all()
        except Exception as error:  # a defect costs this request, and nobody else's
            _log.exception("output failed")
            self._items.clear()
            self._decider.fail(ProtocolFault(f"output: this end failed with {type(error).__name__}"))

    def _deliver_all(self) -> None:
        while self._items:
            item = self._items.popleft()
            if isinstance(item, Ended):
                self._end(item)
                return
            self._meters.decided(item)
            length = self._output.decided(item)
            if length is not None:
                self._stop(length)

    def _stop(self, length: int) -> None:
        """The output ends at a stop text: drop what was decided behind it, and another end if there is one."""
        self._items.clear()
        if not self._decider.stopped(length):
            self._end(Ended(FinishReason.STOP))

    def _end(self, ended: Ended) -> None:
        if self.error is not None:
            self._output.failed(self.error)
        else:
            self._output.ended(ended, self._decider.places())
