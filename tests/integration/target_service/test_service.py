"""A target over real gRPC, with its engine in a process of its own, against scripted peers."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from foreword.errors import InvalidField
from foreword.models.synthetic import SyntheticModel
from foreword.protocol.messages import LoadReport, Lost, Receipt, Refused, Result, TargetOpened, VerdictNotice
from foreword.protocol.words import PROTOCOL_MAX, PROTOCOL_MIN, LossCode, ReceiptCode, RefusalCode, ResultKind
from foreword.wire.methods import TARGET_SERVICE
from tests.unit.target_service.kit import SAMPLED, Peer, open_session, reference

OWN_MODEL = SyntheticModel(vocabulary=64, step_ms=0.0)


async def test_a_session_with_a_lease_blocks_and_a_late_block(start_target: Callable[..., Any]) -> None:
    peer, own = Peer(), reference(OWN_MODEL, 40, law=SAMPLED)
    async with start_target() as target, target.orchestrator() as orchestrator, target.draft() as draft:
        orchestrator.send(open_session(law=SAMPLED, first=peer.plain(3), max_output=60))
        assert (await orchestrator.next(TargetOpened)).longest_length == 4096
        for _ in range(3):
            peer.take(await orchestrator.next(Result))
        for turn in range(6):
            orchestrator.send(peer.speculate(wait_ms=2_000))
            base = peer.sequence.base
            draft.send(peer.block((*own[base : base + turn % 4], 0)))
            result = await orchestrator.next(Result)
            verdict = await draft.next(VerdictNotice)
            assert result.kind is ResultKind.EVIDENCE
            peer.take(result)
            assert peer.output[base:] == (*own[base : base + verdict.kept], verdict.emitted)
        orchestrator.send(peer.speculate(wait_ms=1))
        result = await orchestrator.next(Result)
        assert result.kind is ResultKind.PLAIN
        peer.take(result)
        assert peer.output == own[: len(peer.output)]
        orchestrator.send(peer.close())


async def test_what_it_says_about_itself(start_target: Callable[..., Any]) -> None:
    async with start_target(name="small", reflection=True) as target:
        info = await target.info()
        assert info.model is not None
        assert (info.model.name, info.model.vocabulary_size, info.model.longest_context) == ("small", 64, 4096)
        assert (info.protocol_min, info.protocol_max, info.sessions) == (PROTOCOL_MIN, PROTOCOL_MAX, 0)
        assert info.address == target.address
        assert {point.rows for point in info.cost_curve} == {1, 2, 4, 8, 16, 64}
        async with target.orchestrator() as orchestrator:
            assert orchestrator.link.peer is not None
            assert orchestrator.link.peer.instance == info.instance
            assert isinstance(await orchestrator.next(LoadReport), LoadReport)


async def test_sessions_end_with_their_stream(start_target: Callable[..., Any]) -> None:
    async with start_target() as target, target.draft() as draft:
        async with target.orchestrator() as orchestrator:
            orchestrator.send(open_session())
            await orchestrator.next(TargetOpened)
            assert (await target.info()).sessions == 1
        assert (await target.info()).sessions == 0
        draft.send(Peer().block((1,), ahead=1))
        assert (await draft.next(Receipt)).code is ReceiptCode.UNKNOWN


async def test_a_message_out_of_range_costs_its_session(start_target: Callable[..., Any]) -> None:
    good = Peer(2)
    async with start_target() as target, target.orchestrator() as orchestrator, target.draft() as draft:
        orchestrator.send(open_session(1, tokens=(1, 99)), open_session(2, first=good.plain(1)))
        refused = await orchestrator.next(Refused)
        assert (refused.sid, refused.code) == (1, RefusalCode.BAD)
        assert "99" in refused.message
        good.take(await orchestrator.next(Result))
        orchestrator.send(good.speculate(wait_ms=2_000))
        draft.send(good.block((99,)), good.block((1,)))
        codes = [(await draft.next(Receipt)).code for _ in range(2)]
        # Two streams have no order: the block may come before the Commit, and is held for it then.
        assert codes in ([ReceiptCode.BAD, ReceiptCode.TAKEN], [ReceiptCode.BAD, ReceiptCode.HELD])
        result = await orchestrator.next(Result)
        assert result.kind is ResultKind.EVIDENCE
        good.take(result)


async def test_an_engine_that_dies_is_replaced(start_target: Callable[..., Any]) -> None:
    async with start_target() as target, target.orchestrator() as orchestrator:
        health = health_pb2_grpc.HealthStub(target.channel)
        orchestrator.send(open_session(1, first=Peer(1).plain(1000), max_output=2000))
        await orchestrator.next(Result)
        os.kill(_engine_pid(), signal.SIGKILL)
        lost = await orchestrator.next(Lost)
        assert (lost.sid, lost.code) == (1, LossCode.RUNNER)
        assert "signal 9" in lost.message
        orchestrator.send(open_session(2))
        refused = await orchestrator.next(Refused)
        assert (refused.code, refused.retry_after_ms) == (RefusalCode.STARTING, 1000)
        assert await _health(health) == health_pb2.HealthCheckResponse.NOT_SERVING
        for _ in range(2400):
            if await _health(health) == health_pb2.HealthCheckResponse.SERVING:
                break
            await asyncio.sleep(0.05)
        orchestrator.send(open_session(3))
        assert (await orchestrator.next(TargetOpened)).sid == 3


async def test_a_target_that_stops_lets_sessions_end_and_tells_the_rest_to_move(
    start_target: Callable[..., Any],
) -> None:
    async with start_target(grace_s=2.0) as target, target.orchestrator() as orchestrator:
        orchestrator.send(open_session(1, first=Peer(1).plain(3000), max_output=4000))
        await orchestrator.next(Result)
        target.stop.set()
        await asyncio.sleep(0.1)
        orchestrator.send(open_session(2))
        assert (await orchestrator.next(Refused)).code is RefusalCode.DRAINING
        await orchestrator.next(Result)
        assert (await orchestrator.next(Lost)).code is LossCode.DRAINING
        await target.task


async def test_a_model_that_cannot_be_ends_the_service_with_the_reason(start_target: Callable[..., Any]) -> None:
    with pytest.raises(InvalidField, match="model: got 'synthetic:vocab=2', wanted a whole number from 8"):
        async with start_target(model="synthetic:vocab=2"):
            pass


async def _health(stub: Any) -> int:
    response = await stub.Check(health_pb2.HealthCheckRequest(service=TARGET_SERVICE))
    status: int = response.status
    return status


def _engine_pid() -> int:
    """Return the process that this one started as its engine."""
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    (pid,) = [int(c) for c in children if "foreword.engine" in Path(f"/proc/{c}/cmdline").read_text()]
    return pid
