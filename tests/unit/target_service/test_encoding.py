"""Events leave the engine process as the bytes that an orchestrator reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from foreword.protocol.messages import Lost, Result
from foreword.protocol.words import LossCode, ResultKind
from foreword.wire.frames import TargetAttachClient, build_frame
from foreword.wire.limits import Limits
from target_service.engine.encoding import EncodingChannel
from target_service.engine.messages import Consumed, EncodedEvents, Events, ToEngine, ToService, Unreadable

PLAIN = Result(3, 5, 7, True, ResultKind.PLAIN, (11,))


class Pipe:
    def __init__(self) -> None:
        self.sent: list[ToService] = []

    def receive(self, timeout_s: float | None) -> list[Sequence[ToEngine]]:
        return [[]]

    def send(self, batch: Sequence[ToService]) -> None:
        self.sent += batch


def read(message: ToService) -> list[object]:
    assert isinstance(message, EncodedEvents)
    frame = build_frame([entry for encoded in message.entries for entry in encoded.entries])
    return [event for _, event in TargetAttachClient(Limits()).decode(frame).entries]


def test_events_become_bytes_and_the_rest_stays() -> None:
    pipe = Pipe()
    channel = EncodingChannel(pipe, Limits())
    lost = Lost(4, LossCode.EVICTED, "full")
    channel.send([Events(1, (PLAIN, lost)), Consumed(((1, 2),))])
    assert read(pipe.sent[0]) == [PLAIN, lost]
    assert isinstance(pipe.sent[0], EncodedEvents)
    assert (pipe.sent[0].stream, pipe.sent[0].over) == (1, (4,))
    assert pipe.sent[1] == Consumed(((1, 2),))
    assert channel.receive(0.0) == [[]]


def test_an_event_that_does_not_fit_its_message_is_the_loss_of_its_session_alone() -> None:
    pipe = Pipe()
    channel = EncodingChannel(pipe, Limits())
    channel.send([Events(1, (replace(PLAIN, sid=9, base=-1), PLAIN))])
    assert read(pipe.sent[0]) == [PLAIN]
    ((unreadable,), waiting) = channel.receive(None)
    assert isinstance(unreadable, Unreadable)
    assert (unreadable.stream, unreadable.sid, waiting) == (1, 9, [])
    assert channel.receive(0.0) == [[]]
