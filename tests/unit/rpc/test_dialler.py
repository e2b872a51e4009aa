"""Dialling again and again."""

import asyncio
import random
from contextlib import asynccontextmanager

import structlog
from structlog.testing import capture_logs

from foreword.errors import InvalidField, Mismatch, Unavailable
from foreword.protocol.messages import Recall
from foreword.rpc import dialler as dialler_module
from foreword.rpc.dialler import Backoff, Dialler
from tests.unit.rpc.pipes import Recorder, client_link, pipe, server_link

QUICK = Backoff(first_s=0.001, most_s=0.004)


class Peer:
    """A server that can be reached, or not; remembers the links it served."""

    def __init__(self):
        self.refusals = []
        self.links = []
        self.dials = 0
        self.target = Recorder()

    @asynccontextmanager
    async def dial(self):
        self.dials += 1
        if self.refusals:
            raise self.refusals.pop(0)
        client_end, server_end = pipe()
        link = server_link(self.target)
        self.links.append(link)
        serving = asyncio.create_task(server_end.serve(link))
        try:
            yield client_end
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


@asynccontextmanager
async def dialling(peer, handler):
    dialler = Dialler(peer.dial, lambda: client_link(handler), peer="peer", backoff=QUICK, jitter=random.Random(1))
    running = asyncio.create_task(dialler.run())
    try:
        yield dialler
    finally:
        dialler.stop()
        await asyncio.wait_for(running, 20)


async def test_it_dials_until_the_peer_is_there_and_tells_each_failure():
    peer, handler = Peer(), Recorder()
    peer.refusals = [Unavailable("down"), Unavailable("down"), InvalidField("address", "x", "another")]
    async with dialling(peer, handler) as dialler:
        await handler.came_up.wait()
        assert [type(error) for error in handler.downs] == [Unavailable, Unavailable, InvalidField]
        dialler.link.send(Recall(7, 1))
        assert await peer.target.got.get() == (7, Recall(7, 1))
    assert dialler.link is None
    assert handler.downs[-1] is None
    assert peer.dials == 4


async def test_it_dials_again_with_a_new_link_when_one_is_over():
    peer, handler = Peer(), Recorder()
    async with dialling(peer, handler):
        for number in range(1, 4):
            await handler.came_up.wait()
            handler.came_up.clear()
            assert len(handler.ups) == number
            peer.links[-1].close()
        await handler.came_up.wait()
    assert len({id(link) for link in handler.ups}) == len(handler.ups) == 4


async def test_a_dial_that_fails_unexpectedly_is_told_and_tried_again():
    peer, handler = Peer(), Recorder()
    peer.refusals = [RuntimeError("bug")]
    async with dialling(peer, handler):
        await handler.came_up.wait()
    assert "RuntimeError" in handler.downs[0].message


async def test_why_a_link_is_down_is_logged_once_for_each_reason_and_each_time_it_was_up(monkeypatch):
    monkeypatch.setattr(dialler_module, "_log", structlog.get_logger())
    peer, handler = Peer(), Recorder()
    peer.refusals = [*[Unavailable("no")] * 3, *[Mismatch("other model")] * 2, Unavailable("no")]
    with capture_logs() as logs:
        async with dialling(peer, handler):
            await handler.came_up.wait()
            handler.came_up.clear()
            peer.refusals = [Unavailable("no")] * 2
            peer.links[-1].close()
            await handler.came_up.wait()
    assert [(line["log_level"], line["reason"]) for line in logs if line["log_level"] != "debug"] == [
        ("info", "no"),
        ("warning", "other model"),
        ("info", "no"),
        ("info", "ended by the peer"),
        ("info", "no"),
    ]
    assert len([line for line in logs if line["log_level"] == "debug"]) == 4


async def test_stop_while_it_waits():
    peer, handler = Peer(), Recorder()
    peer.refusals = [Unavailable("down")] * 1000
    dialler = Dialler(peer.dial, lambda: client_link(handler), peer="peer", backoff=Backoff(first_s=600, most_s=600))
    running = asyncio.create_task(dialler.run())
    await asyncio.wait_for(handler.went_down.wait(), 20)
    dialler.stop()
    await asyncio.wait_for(running, 20)
    assert peer.dials == 1


def test_waits_double_up_to_the_cap_and_are_scattered():
    backoff, jitter = Backoff(first_s=0.1, most_s=5.0), random.Random(3)
    for failures in (1, 2, 5, 7, 1000):
        waits = [backoff.delay(failures, jitter) for _ in range(200)]
        row = min(5.0, 0.1 * 2 ** (failures - 1))
        assert row / 2 <= min(waits) < row * 0.6
        assert row * 0.9 < max(waits) <= row * 1.0001
