"""The engine's end of its pipe: the real one, and the scripted one that engine tests use."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from foreword.engine.channel import EngineChannel, EngineStopped
from foreword.engine.framing import Kind, Unpacker, pack
from target_service.engine.messages import Consumed, LinkEnded, StopOpening
from target_service.ports import Channel
from tests.unit.target_service.kit import Finished, ScriptedChannel, VirtualTime


@dataclass
class Ends:
    """A channel, a way to put something in, what came out, and a way to be gone."""

    channel: Channel
    put: Callable[[Any], None]
    sent: Callable[[], list[Any]]
    leave: Callable[[], None]
    gone: type[Exception]


def scripted() -> Iterator[Ends]:
    time = VirtualTime()
    channel = ScriptedChannel(time)
    channel.limit_us = 10_000

    def sent() -> list[Any]:
        return [tuple(batch) for _, batch in channel.batches]

    yield Ends(channel, lambda m: channel.at(time.us, m), sent, lambda: None, Finished)


def real() -> Iterator[Ends]:
    ours, theirs = socket.socketpair()
    unpacker, batches = Unpacker(), []
    with ours, theirs:

        def sent() -> list[Any]:
            batches.extend(tuple(value) for _, value in unpacker.feed(ours.recv(1 << 16)))
            return batches

        yield Ends(
            EngineChannel(theirs), lambda m: ours.sendall(pack(Kind.BATCH, [m])), sent, ours.close, EngineStopped
        )


@pytest.fixture(params=[scripted, real], ids=["scripted", "real"])
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    yield from request.param()


class TestChannel:
    def test_it_only_looks_when_it_must_not_wait(self, ends: Ends) -> None:
        assert ends.channel.receive(0.0) == []

    def test_a_wait_without_messages_ends(self, ends: Ends) -> None:
        assert ends.channel.receive(0.001) == []

    def test_all_that_is_there_comes_in_order(self, ends: Ends) -> None:
        messages = [LinkEnded(1), StopOpening(), LinkEnded(2)]
        for message in messages:
            ends.put(message)
        received = ends.channel.receive(0.001)
        assert [message for batch in received for message in batch] == messages
        assert ends.channel.receive(0.0) == []

    def test_a_batch_arrives_as_one(self, ends: Ends) -> None:
        ends.channel.send([Consumed(((1, 2),)), Consumed(())])
        assert ends.sent() == [(Consumed(((1, 2),)), Consumed(()))]

    def test_the_end_of_the_other_side_is_raised_after_what_it_had_said(self, ends: Ends) -> None:
        ends.put(LinkEnded(1))
        ends.leave()
        assert ends.channel.receive(0.001) == [[LinkEnded(1)]]
        with pytest.raises(ends.gone):
            ends.channel.receive(1.0)
