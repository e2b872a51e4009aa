"""The switchboard: who gets what, and what happens while there is no engine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from foreword.errors import ForewordError, Full, InvalidField, NotFound, ProtocolFault
from foreword.protocol.messages import LoadReport, Lost, Receipt, Refused, TargetEvent, TargetTicket, VerdictNotice
from foreword.protocol.words import LossCode, ReceiptCode, RefusalCode
from foreword.rpc.roles import Role
from foreword.runner.port import Memory
from foreword.wire.blocks import BadBlock
from foreword.wire.limits import Limits
from target_service.engine.encoding import EncodingChannel
from target_service.engine.messages import (
    Answers,
    Blocks,
    Commands,
    Consumed,
    EncodedEvents,
    Events,
    LinkEnded,
    PrefixHits,
    Status,
    StepReport,
    StreamEnded,
    ToEngine,
    Unreadable,
)
from target_service.hub import Hub
from target_service.metrics import TargetMetrics
from target_service.servicer import TargetServicer
from tests.unit.target_service.kit import Peer, open_session, ticket


class FakeLink:
    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.closed = False

    def send(self, message: Any) -> bool:
        if isinstance(message, VerdictNotice):
            raise ProtocolFault("receipt.ticket: forgotten")
        self.sent.append(message)
        return True

    def send_encoded(self, message: Any) -> bool:
        self.sent.append(message)
        return True

    def close(self) -> None:
        self.closed = True

    def abort(self, error: ForewordError) -> None:
        self.sent.append(error)


class NoChannel:
    def receive(self, timeout_s: float | None) -> list[Any]:
        raise AssertionError

    def send(self, batch: Any) -> None:
        raise AssertionError


class Exchange:
    """A hub with a stream, a link and an engine that only listens."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.hub = Hub(TargetMetrics(self.registry))
        self.stream, self.link = FakeLink(), FakeLink()
        self.engine: list[ToEngine] = []
        self.hub.engine_up(self.engine.extend)
        self.stream_number = self.hub.stream_up(self.stream)  # type: ignore[arg-type]
        self.link_number = self.hub.link_up(self.link)  # type: ignore[arg-type]

    def commands(self, *entries: Any) -> None:
        self.hub.commands_came(self.stream_number, entries)

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)


def encoded(stream: int, events: tuple[TargetEvent, ...]) -> EncodedEvents:
    return EncodingChannel(NoChannel(), Limits()).encoded(Events(stream, events))


def shapes(messages: Sequence[ToEngine]) -> list[object]:
    return [(type(m), len(m.commands)) if isinstance(m, Commands) else type(m) for m in messages]


def test_a_frame_is_one_batch_and_unreadable_messages_keep_their_place() -> None:
    exchange, peer = Exchange(), Peer()
    commit = peer.plain(1)
    error = InvalidField("commit.base", -1, "a base")
    exchange.commands((1, open_session(1)), (1, commit), (7, error), (None, error), (1, peer.recall()))
    assert shapes(exchange.engine) == [(Commands, 2), Unreadable, (Commands, 1)]
    assert exchange.engine[1] == Unreadable(exchange.stream_number, 7, error.message)
    assert exchange.engine[0].at_us > 0  # type: ignore[union-attr]


def test_sessions_are_counted_until_they_are_over() -> None:
    exchange = Exchange()
    exchange.commands(*((sid, open_session(sid)) for sid in (1, 2, 3, 4)))
    assert exchange.hub.sessions == 4
    exchange.commands((1, Peer(1).close()))
    over = (Lost(2, LossCode.EVICTED, "full"), Refused(3, RefusalCode.FULL, "full"))
    exchange.hub.take([encoded(exchange.stream_number, over)])
    assert exchange.hub.sessions == 1
    exchange.hub.stream_down(exchange.stream_number)
    assert exchange.hub.sessions == 0
    assert exchange.engine[-1] == StreamEnded(exchange.stream_number)
    exchange.hub.take([encoded(exchange.stream_number, over)])  # on its way when the stream ended


def test_blocks_go_on_and_bad_ones_come_back() -> None:
    exchange = Exchange()
    good, bad = Peer().block((1,)), BadBlock(1, ticket(1), 2, 3, InvalidField("block.ids", 99, "less"))
    exchange.hub.blocks_came(exchange.link_number, [good, bad, good])
    assert exchange.link.sent == [bad]
    (sent,) = exchange.engine
    assert isinstance(sent, Blocks)
    assert sent.blocks == (good, good)
    assert exchange.value("foreword_target_events_total", event="unreadable_block") == 1
    exchange.hub.link_down(exchange.link_number)
    assert exchange.engine[-1] == LinkEnded(exchange.link_number)


def test_an_answer_that_cannot_be_sent_is_counted_and_the_others_go() -> None:
    exchange = Exchange()
    receipt = Receipt(ticket(1), 1, 2, ReceiptCode.TAKEN)
    notice = VerdictNotice(ticket(1), 1, 2, kept=0, emitted=3)
    exchange.hub.take([Answers(exchange.link_number, (notice, receipt)), Answers(99, (receipt,))])
    assert exchange.link.sent == [receipt]
    assert exchange.value("foreword_target_events_total", event="unsendable_answer") == 1


def test_without_an_engine_sessions_are_lost_and_peers_are_answered() -> None:
    exchange, peer = Exchange(), Peer(1)
    exchange.commands((1, open_session(1)), (2, open_session(2)))
    exchange.hub.engine_down("killed by signal 9")
    assert exchange.stream.sent == [Lost(sid, LossCode.RUNNER, "killed by signal 9") for sid in (1, 2)]
    exchange.commands((1, peer.plain(1)), (3, open_session(3)))
    refused = exchange.stream.sent[-1]
    assert (refused.sid, refused.code, refused.retry_after_ms) == (3, RefusalCode.STARTING, 1000)
    error = InvalidField("law.stop_ids", 8193, "at most 8192 values")
    exchange.commands((4, error), (None, error))
    assert exchange.stream.sent[-1] == Refused(4, RefusalCode.BAD, error.message)
    exchange.hub.blocks_came(exchange.link_number, [peer.block((1,))])
    assert exchange.link.sent[-1].code is ReceiptCode.UNKNOWN
    assert exchange.hub.sessions == 0
    assert len(exchange.engine) == 1, "nothing of this reached the engine that is gone"


def test_reports_reach_everybody_and_the_metrics() -> None:
    exchange = Exchange()
    load = LoadReport(sessions=3, waiting=1, free_tokens=70, step_us=20_000, price=0.25)
    status = Status(load, (), 30, Memory(16, 9, 5), PrefixHits(queried=100, hit=48), counts={"old_commit": 2})
    exchange.hub.take([status, StepReport(9, 4, 1, 0, 20_000, 300)])
    assert exchange.stream.sent == [load]
    assert exchange.value("foreword_target_sessions") == 3
    assert exchange.value("foreword_target_resident_tokens") == 30
    assert exchange.value("foreword_target_sessions_waiting") == 1
    assert [exchange.value("foreword_target_pages", kind=kind) for kind in ("all", "free")] == [9, 5]
    found = [exchange.value("foreword_target_prefix_tokens_total", kind=kind) for kind in ("queried", "hit")]
    assert found == [100, 48]
    assert exchange.value("foreword_target_price") == 0.25
    assert exchange.value("foreword_target_events_total", event="old_commit") == 2
    assert exchange.value("foreword_target_step_seconds_sum") == pytest.approx(0.02)
    assert exchange.value("foreword_target_prompt_tokens_total") == 4
    assert exchange.value("foreword_target_step_parts_total", kind="verified") == 1


def test_a_peer_that_floods_is_cut_off_and_one_that_waits_its_turn_is_not() -> None:
    exchange, peer = Exchange(), Peer()
    block, recall = peer.block((1,), ahead=1), peer.recall()
    for _ in range(4):
        exchange.hub.blocks_came(exchange.link_number, [block] * 4096)
        exchange.commands(*[(1, recall)] * 4096)
        exchange.hub.take([Consumed(((exchange.link_number, 4096), (exchange.stream_number, 4096)))])
    assert not exchange.link.sent
    assert not exchange.stream.sent
    for _ in range(3):
        exchange.hub.blocks_came(exchange.link_number, [block] * 4096)
    (cut,) = exchange.link.sent
    assert isinstance(cut, Full)
    assert "12288 messages wait" in cut.message
    assert not exchange.stream.sent


async def test_waiting_for_the_last_session_ends_with_it_or_with_the_time() -> None:
    exchange = Exchange()
    await exchange.hub.wait_idle(60.0)
    exchange.commands((1, open_session(1)))
    await exchange.hub.wait_idle(0.01)
    assert exchange.hub.sessions == 1
    exchange.commands((1, Peer(1).close()))
    await exchange.hub.wait_idle(60.0)
    exchange.commands((2, open_session(2)))
    waiting = asyncio.create_task(exchange.hub.wait_idle(3600.0))
    await asyncio.sleep(0)
    exchange.hub.engine_down("killed by signal 9")
    await asyncio.wait_for(waiting, 120.0)
    exchange.hub.close()
    assert exchange.stream.closed
    assert exchange.link.closed


def test_drafts_push_orchestrators_attach_everybody_may_ask() -> None:
    servicer = TargetServicer(Exchange().hub, instance="x", info=lambda: pytest.fail("not asked"))
    roles = {name: method.roles for name, method in servicer.service().methods.items()}
    assert roles == {
        "GetInfo": frozenset(Role),
        "Attach": frozenset({Role.ORCHESTRATOR}),
        "PushBlocks": frozenset({Role.DRAFT}),
    }


def test_tickets_are_known_as_long_as_their_session() -> None:
    exchange = Exchange()
    exchange.commands(*((sid, open_session(sid)) for sid in (1, 2, 3)))
    own = [ticket(sid) for sid in (1, 2, 3)]
    exchange.commands((1, TargetTicket(1, ticket(50))), (9, TargetTicket(9, ticket(51))))
    assert [exchange.hub.knows(t) for t in (*own, ticket(50), ticket(51))] == [True, True, True, True, False]
    exchange.commands((1, Peer(1).close()))
    exchange.hub.take([encoded(exchange.stream_number, (Lost(2, LossCode.EVICTED, "full"),))])
    assert [exchange.hub.knows(t) for t in (*own, ticket(50))] == [False, False, True, False]
    exchange.hub.stream_down(exchange.stream_number)
    assert not exchange.hub.knows(own[2])


def test_tickets_are_forgotten_with_the_engine() -> None:
    exchange = Exchange()
    exchange.commands((1, open_session(1)))
    exchange.hub.engine_down("killed by signal 9")
    assert not exchange.hub.knows(ticket(1))


def test_a_session_with_many_tickets_keeps_the_newest() -> None:
    exchange = Exchange()
    exchange.commands((1, open_session(1)), *((1, TargetTicket(1, ticket(n))) for n in range(50, 60)))
    assert [exchange.hub.knows(ticket(n)) for n in range(50, 60)] == [False] * 2 + [True] * 8


def test_a_draft_that_floods_without_a_session_is_cut_off() -> None:
    exchange = Exchange()
    unknown = BadBlock(1, None, 2, 3, NotFound("block.ticket: got one that no session has"))
    for _ in range(9):
        exchange.hub.blocks_came(exchange.link_number, [unknown] * 1_000)
    assert isinstance(exchange.link.sent[-1], Full)
    assert exchange.value("foreword_target_events_total", event="unknown_ticket") == 9_000
    assert exchange.engine == [], "the engine never hears of them"
