"""Links over real gRPC."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

from foreword.errors import Mismatch, Unavailable
from foreword.protocol.messages import Commit, PlainOrder, Result
from foreword.protocol.words import ResultKind, Rule
from foreword.rpc.dialler import Backoff, Dialler
from foreword.rpc.transport import dial_on
from foreword.testing.fault_proxy import FaultProxy
from foreword.wire.methods import TARGET_ATTACH
from tests.integration.rpc.conftest import (
    OPTIONS,
    QUICK_LIVENESS,
    Target,
    channel_to,
    orchestrator_link,
    running,
    serving,
)
from tests.unit.rpc.pipes import Recorder
from tests.unit.wire.specimens import TARGET_OPEN

QUICK = Backoff(first_s=0.01, most_s=0.05)


def commit(round_):
    return Commit(7, round_, 0, (), 0, Rule.MATCH, PlainOrder(1))


def answer(link, entries):
    for sid, command in entries:
        link.send(Result(sid, command.round, command.base, True, ResultKind.PLAIN, (1,)))


async def attach(channel, handler, options=OPTIONS):
    """Run one link on a channel; returns its reason."""
    async with dial_on(channel, TARGET_ATTACH)() as transport:
        return await orchestrator_link(handler, options).run(transport)


def dialling(server, handler, options=OPTIONS):
    @asynccontextmanager
    async def dial():
        async with channel_to(server) as channel, dial_on(channel, TARGET_ATTACH)() as transport:
            yield transport

    return Dialler(dial, lambda: orchestrator_link(handler, options), peer="target", backoff=QUICK)


async def test_messages_go_both_ways_and_close_is_orderly():
    target, orchestrator = Target(Recorder(answer)), Recorder()
    async with serving(target.service()) as server:
        dialler = dialling(server, orchestrator)
        async with running(dialler.run()) as task:
            await orchestrator.came_up.wait()
            for round_ in range(50):
                assert dialler.link.send(commit(round_))
                sid, result = await orchestrator.got.get()
                assert (sid, result.round) == (7, round_)
            dialler.stop()
            await task
        assert (orchestrator.downs, target.handler.downs) == ([None], [None])


async def test_a_prompt_of_many_chunks_arrives_once():
    long = replace(TARGET_OPEN, tokens=tuple(range(100_000)), prompt_len=100_000, first=None)
    target, orchestrator = Target(), Recorder()
    async with serving(target.service()) as server:
        dialler = dialling(server, orchestrator)
        async with running(dialler.run()):
            await orchestrator.came_up.wait()
            dialler.link.send(long)
            assert await target.handler.got.get() == (7, long)
            assert target.handler.got.empty()


async def test_a_version_mismatch_names_both_ranges_at_both_ends():
    target, orchestrator = Target(), Recorder()
    async with serving(target.service()) as server, channel_to(server) as channel:
        reason = await attach(channel, orchestrator, replace(OPTIONS, protocol_min=8, protocol_max=9))
        await target.handler.went_down.wait()
    for error, text in ((reason, "1 to 1"), (target.handler.downs[0], "the peer speaks 8 to 9, this end 1 to 1")):
        assert isinstance(error, Mismatch)
        assert "8 to 9" in error.message
        assert text in error.message


async def test_a_half_open_link_ends_at_both_ends_and_is_dialled_again():
    target, orchestrator = Target(options=QUICK_LIVENESS), Recorder()
    async with serving(target.service()) as server, FaultProxy(server.address) as proxy:
        dialler = dialling(proxy, orchestrator, QUICK_LIVENESS)
        async with running(dialler.run()):
            await orchestrator.came_up.wait()
            orchestrator.came_up.clear()
            proxy.half_open()
            await orchestrator.went_down.wait()
            await target.handler.went_down.wait()
            for reason in (orchestrator.downs[0], target.handler.downs[0]):
                assert isinstance(reason, Unavailable)
                assert "3 intervals of 50 ms" in reason.message
            proxy.restore()
            await orchestrator.came_up.wait()


async def test_a_server_that_comes_back_is_found_again():
    orchestrator = Recorder()
    first = Target()
    async with serving(first.service()) as server, running(dialling(server, orchestrator).run()):
        await orchestrator.came_up.wait()
        await server.stop()
        await orchestrator.went_down.wait()
        orchestrator.came_up.clear()
        second = Target()
        async with serving(second.service(), listen=server.address):
            await orchestrator.came_up.wait()
            assert len(second.links) == 1


async def test_the_reason_that_a_server_ends_a_link_for_reaches_the_client():
    target, orchestrator = Target(), Recorder()
    target.handler._on_received = lambda link, _: link.abort(Unavailable("target: draining", retry_after_ms=700))
    async with serving(target.service()) as server:
        dialler = dialling(server, orchestrator)
        async with running(dialler.run()):
            await orchestrator.came_up.wait()
            dialler.link.send(commit(1))
            await orchestrator.went_down.wait()
    assert isinstance(orchestrator.downs[0], Unavailable)
    assert (orchestrator.downs[0].message, orchestrator.downs[0].retry_after_ms) == ("target: draining", 700)


async def test_a_peer_that_does_not_answer_at_all():
    orchestrator = Recorder()
    async with serving() as server, channel_to(server) as channel:
        reason = await attach(channel, orchestrator)
    assert "Method not found" in reason.message
    assert orchestrator.ups == []


async def test_a_client_that_vanishes_is_noticed():
    target, orchestrator = Target(), Recorder()
    async with serving(target.service()) as server:
        async with channel_to(server) as channel, running(attach(channel, orchestrator)):
            await orchestrator.came_up.wait()
            await target.handler.came_up.wait()
        await asyncio.wait_for(target.handler.went_down.wait(), 20)
        assert len(target.handler.downs) == 1
