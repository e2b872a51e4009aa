"""Links over streams in memory."""

import asyncio
import time
from dataclasses import replace

import pytest

from foreword.errors import (
    DeadlineExceeded,
    ForewordError,
    Full,
    InvalidField,
    Mismatch,
    NotFound,
    ProtocolFault,
    Unavailable,
)
from foreword.protocol.messages import Commit, LoadReport, PlainOrder, Recall, TargetClose
from foreword.protocol.words import Rule
from foreword.rpc.link import LinkOptions
from foreword.wire.frames import TargetAttachClient, build_frame
from tests.unit.rpc.pipes import FAST, LIMITS, Recorder, client_link, pipe, server_link
from tests.unit.wire.specimens import TARGET_OPEN

SLOW = LinkOptions(liveness_s=60.0)


class Pair:
    """Two running links, joined."""

    def __init__(self, client_options=FAST, server_options=FAST, on_client=None, on_server=None):
        self.client_end, self.server_end = pipe()
        self.orchestrator, self.target = Recorder(on_client), Recorder(on_server)
        self.client = client_link(self.orchestrator, client_options)
        self.server = server_link(self.target, server_options)
        self.tasks = []

    async def __aenter__(self):
        self.tasks = [
            asyncio.create_task(self.client.run(self.client_end)),
            asyncio.create_task(self.server_end.serve(self.server)),
        ]
        return self

    async def up(self):
        await self.orchestrator.came_up.wait()
        await self.target.came_up.wait()

    async def reasons(self):
        return await asyncio.gather(*self.tasks)

    async def __aexit__(self, *_):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def measured(pair):
    """Wait until both ends know a round trip."""
    for _ in range(10_000):
        if None not in (pair.client.round_trip.median_us, pair.server.round_trip.median_us):
            return
        await asyncio.sleep(0.001)
    pytest.fail("no round trip in 10 s")


async def test_hellos_are_exchanged_before_anything_else():
    async with Pair() as pair:
        assert not pair.client.is_up
        await pair.up()
        assert pair.client.is_up
        assert pair.client.peer == pair.server.hello
        assert pair.server.peer.instance == "orchestrator-1"


async def test_what_is_sent_together_rides_in_one_frame_in_order():
    async with Pair(SLOW, SLOW) as pair:
        await pair.up()
        commits = [Commit(7, r, 0, (), 0, Rule.MATCH, PlainOrder(1)) for r in range(32)]
        before = len(pair.client_end.frames)
        assert all([pair.client.send(commit) for commit in commits])
        got = [await pair.target.got.get() for _ in commits]
        assert got == [(7, commit) for commit in commits]
        assert len(pair.client_end.frames) == before + 1
        assert pair.target.batches[-1] == got


async def test_a_full_frame_is_followed_by_another():
    async with Pair(replace(SLOW, frame_bytes=40), SLOW) as pair:
        await pair.up()
        for r in range(10):
            pair.client.send(Recall(7, r))
        got = [await pair.target.got.get() for _ in range(10)]
        assert [recall.round for _, recall in got] == list(range(10))
        assert max(map(len, pair.target.batches)) < 10


async def test_messages_sent_before_the_link_runs_go_first():
    client_end, server_end = pipe()
    target = Recorder()
    client, server = client_link(Recorder()), server_link(target)
    client.send(Recall(1, 2))
    tasks = [asyncio.create_task(client.run(client_end)), asyncio.create_task(server_end.serve(server))]
    assert await target.got.get() == (1, Recall(1, 2))
    client.close()
    assert await asyncio.gather(*tasks) == [None, None]


async def test_a_long_prompt_does_not_stand_in_front_of_other_sessions():
    long = replace(TARGET_OPEN, sid=1, tokens=tuple(range(800)), prompt_len=800, first=None)
    async with Pair(SLOW, SLOW) as pair:
        await pair.up()
        pair.client_end.open.clear()  # the transport is busy while these are queued
        pair.client.send(Recall(2, 0))
        await asyncio.sleep(0)
        pair.client.send(long)
        pair.client.send(TargetClose(1, 0))
        pair.client.send(Recall(2, 1))
        pair.client_end.open.set()
        got = [await pair.target.got.get() for _ in range(4)]
    assert got == [(2, Recall(2, 0)), (2, Recall(2, 1)), (1, long), (1, TargetClose(1, 0))]


async def test_close_sends_what_is_queued_and_ends_both_in_good_order():
    async with Pair() as pair:
        await pair.up()
        pair.client.send(Recall(7, 1))
        pair.client.close()
        assert pair.client.send(Recall(7, 2)) is False
        assert await pair.reasons() == [None, None]
        assert pair.target.batches == [[(7, Recall(7, 1))]]
        assert (pair.orchestrator.downs, pair.target.downs) == ([None], [None])


async def test_a_server_closes_in_good_order_too():
    async with Pair() as pair:
        await pair.up()
        pair.server.send(LoadReport(1))
        pair.server.close()
        assert await pair.reasons() == [None, None]
        assert pair.orchestrator.batches == [[(None, LoadReport(1))]]


async def test_versions_without_one_in_common_end_both_and_are_named():
    newer = replace(FAST, protocol_min=2, protocol_max=3)
    async with Pair(newer) as pair:
        reasons = await pair.reasons()
    wanted = ("the peer speaks 1 to 1, this end 2 to 3", "the peer speaks 2 to 3, this end 1 to 1")
    for reason, text in zip(reasons, wanted, strict=True):
        assert isinstance(reason, Mismatch)
        assert text in reason.message
    assert pair.orchestrator.ups == pair.target.ups == []


async def test_a_write_that_is_on_when_the_link_ends_is_not_cancelled():
    """The status of the stream goes out after it; gRPC loses both otherwise, and the peer waits for ever."""
    client, server = pipe()
    target, ended = Recorder(), asyncio.Event()
    server.open.clear()
    task = asyncio.create_task(server_link(target).run(server))
    task.add_done_callback(lambda _: ended.set())
    await client.write(build_frame([], hello=replace(FAST, protocol_min=8, protocol_max=9).hello("stranger")))
    await target.went_down.wait()
    assert not ended.is_set()
    server.open.set()
    assert isinstance(await task, Mismatch)
    assert len(server.frames) == 1


class Ordered(Recorder):
    """Remembers the order of calls."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def received(self, link, entries):
        self.calls.append("received")

    def down(self, link, error):
        self.calls.append("down")
        super().down(link, error)


@pytest.mark.parametrize("blocked", [False, True], ids=["writer idle", "write on"])
@pytest.mark.parametrize("turns", range(6))
async def test_nothing_is_received_after_down(turns, blocked):
    client, server = pipe()
    target = Ordered()
    link = server_link(target, SLOW)
    task = asyncio.create_task(link.run(server))
    await client.write(build_frame([], hello=FAST.hello("orchestrator")))
    await target.came_up.wait()
    if blocked:
        server.open.clear()
        link.send(LoadReport(sessions=1))
        await asyncio.sleep(0)
    link.abort(Unavailable("enough"))
    for _ in range(turns):
        await asyncio.sleep(0)
    close = TargetAttachClient(LIMITS).encode(TargetClose(1, 0))
    await client.write(build_frame(close.entries))
    await target.went_down.wait()
    await asyncio.sleep(0.01)
    server.open.set()
    await task
    assert target.calls[-1] == "down"
    assert target.calls.count("down") == 1


async def test_ranges_that_overlap_fit():
    async with Pair(replace(FAST, protocol_max=5)) as pair:
        await pair.up()


@pytest.mark.parametrize(
    ("frames", "text"),
    [
        ([b""], "hello: got a first frame without one"),
        ([build_frame([], hello=FAST.hello("x")), build_frame([], hello=FAST.hello("x"))], "hello: got a second one"),
        ([b"\xff"], "frame: got 1 bytes"),
    ],
)
async def test_streams_that_break_the_protocol_are_ended(frames, text):
    client_end, server_end = pipe()
    handler = Recorder()
    link = server_link(handler)
    running = asyncio.create_task(link.run(server_end))
    for frame in frames:
        await client_end.write(frame)
    reason = await running
    assert isinstance(reason, ProtocolFault)
    assert text in reason.message
    assert handler.downs == [reason]


async def test_a_silent_peer_is_given_up_after_three_intervals():
    client_end, server_end = pipe()
    handler = Recorder()
    link = server_link(handler, replace(FAST, liveness_s=60.0))
    running = asyncio.create_task(link.run(server_end))
    await client_end.write(build_frame([], hello=replace(FAST.hello("quiet"), liveness_ms=10)))
    reason = await running
    assert isinstance(reason, Unavailable)
    assert reason.message == "liveness: got no frame from quiet in 3 intervals of 10 ms"


async def test_a_peer_that_never_says_hello_is_given_up():
    _, server_end = pipe()
    reason = await server_link(Recorder(), replace(FAST, handshake_s=0.01)).run(server_end)
    assert isinstance(reason, DeadlineExceeded)


async def test_liveness_keeps_an_idle_link_up_and_measures_it():
    async with Pair() as pair:
        await pair.up()
        await measured(pair)
        await asyncio.sleep(FAST.liveness_s * 6)
        assert pair.client.is_up
        assert pair.server.is_up
        assert 0 <= pair.client.round_trip.minimum_us <= pair.client.round_trip.median_us


async def test_the_first_round_trip_is_known_without_waiting_for_an_interval():
    async with Pair(SLOW, SLOW) as pair:
        await pair.up()
        await measured(pair)


async def test_a_pause_of_this_process_is_not_the_silence_of_the_peer():
    async with Pair() as pair:
        await pair.up()
        time.sleep(FAST.liveness_s * 10)  # noqa: ASYNC251 - the pause under test
        await asyncio.sleep(FAST.liveness_s * 2)
        assert pair.client.is_up
        assert pair.server.is_up


async def test_a_peer_that_does_not_read_is_given_up_at_the_byte_cap():
    async with Pair(replace(FAST, queue_bytes=1000)) as pair:
        await pair.up()
        pair.client_end.open.clear()
        sent = 0
        while pair.client.send(Recall(7, 2**31)):
            sent += 1
        assert 30 < sent < 130
        reason = await pair.tasks[0]
        assert isinstance(reason, Full)
        assert "wanted at most 1000" in reason.message
        assert pair.client.queued_bytes == 0


async def test_a_message_that_cannot_be_encoded_fails_alone():
    async with Pair() as pair:
        await pair.up()
        with pytest.raises(InvalidField):
            pair.client.send(Recall(7, -1))
        assert pair.client.send(Recall(7, 1))
        assert await pair.target.got.get() == (7, Recall(7, 1))


async def test_a_bad_entry_reaches_the_handler_beside_its_session():
    async with Pair() as pair:
        await pair.up()
        await pair.client_end.write(b"\x1a\x04\x22\x02\x08\x05" + build_frame(()))
        sid, error = await pair.target.got.get()
        assert sid == 5
        assert isinstance(error, ForewordError)
        assert pair.server.is_up


async def test_a_handler_that_raises_ends_the_link_and_its_error_comes_out():
    def fail(link, entries):
        raise RuntimeError("bug")

    async with Pair(on_server=fail) as pair:
        await pair.up()
        pair.client.send(Recall(7, 1))
        with pytest.raises(RuntimeError, match="bug"):
            await pair.tasks[1]
        (reason,) = pair.target.downs
        assert reason.message == "link: the handler raised RuntimeError"


async def test_abort_ends_at_once_for_its_reason_also_from_within_a_batch():
    gone = NotFound("model: got none")

    async with Pair(on_server=lambda link, _: link.abort(gone)) as pair:
        await pair.up()
        pair.client.send(Recall(7, 1))
        assert await pair.tasks[1] is gone
        assert pair.target.downs == [gone]
        assert pair.server.send(LoadReport(1)) is False


async def test_cancelling_tells_the_handler():
    async with Pair() as pair:
        await pair.up()
        pair.tasks[1].cancel()
        with pytest.raises(asyncio.CancelledError):
            await pair.tasks[1]
        (reason,) = pair.target.downs
        assert isinstance(reason, Unavailable)


async def test_wait_closed_answers_before_during_and_after():
    async with Pair() as pair:
        early = asyncio.create_task(pair.client.wait_closed())
        await pair.up()
        pair.client.close()
        await pair.reasons()
        assert await early is None
        assert await pair.client.wait_closed() is None
