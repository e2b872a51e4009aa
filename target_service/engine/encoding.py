"""Encodes events in the engine process, whose step is over, so that the gRPC process has bytes to pass on."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from foreword.errors import ForewordError
from foreword.protocol.messages import Lost, Refused
from foreword.wire.frames import Encoded, TargetAttachServer
from foreword.wire.limits import Limits
from target_service.engine.messages import EncodedEvents, Events, FromEngine, ToEngine, Unreadable
from target_service.ports import ServiceChannel

_log = structlog.stdlib.get_logger(__name__)


class EncodingChannel:
    """Implements `target_service.ports.Channel` over a pipe that takes encoded events."""

    def __init__(self, channel: ServiceChannel, limits: Limits) -> None:
        self._channel = channel
        self._codec = TargetAttachServer(limits)
        self._lost: list[Unreadable] = []
        """Sessions whose events could not be sent; the engine hears of them next."""

    def receive(self, timeout_s: float | None) -> list[Sequence[ToEngine]]:
        """Return batches that are there."""
        if not self._lost:
            return self._channel.receive(timeout_s)
        lost, self._lost = self._lost, []
        return [lost, *self._channel.receive(0.0)]

    def send(self, batch: Sequence[FromEngine]) -> None:
        """Hand over a batch, its events as bytes."""
        self._channel.send([self.encoded(m) if isinstance(m, Events) else m for m in batch])

    def encoded(self, events: Events) -> EncodedEvents:
        """Return the events as entries of a frame; one that no message can carry costs its session, which is lost."""
        over = tuple([event.sid for event in events.events if isinstance(event, Refused | Lost)])
        entries: list[Encoded] = []
        for event in events.events:
            try:
                entries.append(self._codec.encode(event))
            except ForewordError as error:
                sid: int | None = getattr(event, "sid", None)
                _log.error("event not sent", sid=sid, reason=error.message)
                if sid is not None:
                    self._lost.append(Unreadable(events.stream, sid, error.message))
        return EncodedEvents(events.stream, tuple(entries), over)
