"""Links to targets: dialled on demand, shared, kept for a while, and reported to those who care."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from draft_service.engine.encoding import encoded
from draft_service.engine_messages import Answers, Blocks, Bound, EncodedBlocks, LinkUp, ToEngine
from draft_service.target_links import TargetLinks
from foreword.errors import InvalidField, Unavailable
from foreword.protocol.messages import Block, DraftEvent, LinkState, Receipt, VerdictNotice
from foreword.protocol.words import Drafter, ReceiptCode
from foreword.rpc.link import Link, LinkOptions
from foreword.rpc.transport import Dial
from foreword.wire.frames import PushBlocksServer
from foreword.wire.limits import Limits
from tests.unit.draft_service.kit import target, ticket
from tests.unit.rpc.pipes import Recorder, pipe

FAST = LinkOptions(liveness_s=0.05)


def block(sid: int) -> Block:
    return Block(ticket(sid), 1, 0, 7, (1, 2), Drafter.MODEL)


def encoded_blocks(target: str, blocks: tuple[Block, ...]) -> EncodedBlocks:
    (message,) = encoded([Blocks(target, blocks)], count=lambda name: None)
    assert isinstance(message, EncodedBlocks)
    return message


class Around:
    """Targets in memory, by address; remembers what is said."""

    def __init__(self) -> None:
        self.dialled: list[str] = []
        self.targets: dict[str, Recorder] = {}
        self.links: list[Link[Any, Any]] = []
        self.engine: asyncio.Queue[ToEngine] = asyncio.Queue()
        self.told: list[tuple[int, DraftEvent]] = []
        self.counted: list[str] = []
        self.refused = asyncio.Event()

    def dial(self, address: str) -> Dial:
        if address == "far:1":
            raise InvalidField("target_address", address, "TLS")

        @asynccontextmanager
        async def dial() -> AsyncIterator[Any]:
            self.dialled.append(address)
            if address == "dead:1":
                self.refused.set()
                raise Unavailable("nobody there")
            ours, theirs = pipe()
            recorder = self.targets.setdefault(address, Recorder())
            link: Link[Any, Any] = Link(PushBlocksServer(Limits()), recorder, instance="T1", options=FAST)
            self.links.append(link)
            serving = asyncio.create_task(theirs.serve(link))
            try:
                yield ours
            finally:
                serving.cancel()
                await asyncio.gather(serving, return_exceptions=True)

        return dial

    def to_engine(self, message: ToEngine) -> None:
        self.engine.put_nowait(message)

    async def is_up(self) -> None:
        """Wait for the news that the link is up."""
        up = await self.engine.get()
        assert isinstance(up, LinkUp)
        assert (up.address, up.instance) == ("t:1", "T1")

    def tell(self, stream: int, event: DraftEvent) -> None:
        self.told.append((stream, event))

    def count(self, name: str) -> None:
        self.counted.append(name)


@asynccontextmanager
async def links(around: Around, **options: float) -> AsyncIterator[TargetLinks]:
    ours = TargetLinks(around, instance="D1", limits=Limits, options=FAST, **options)
    try:
        yield ours
    finally:
        await ours.close()


async def test_sessions_of_one_target_share_a_link() -> None:
    around = Around()
    async with links(around) as ours:
        for sid in (1, 2):
            ours.bind(Bound(1, target(sid)))
        await around.is_up()
        assert ours.push(encoded_blocks("t:1", (block(1), block(2)))) == {"block_sent": 2}
        recorder = around.targets["t:1"]
        assert [await recorder.got.get(), await recorder.got.get()] == [block(1), block(2)]
        ours.bind(Bound(1, target(3)))
        assert around.dialled == ["t:1"]
        assert around.told == []


async def test_answers_of_a_frame_reach_the_engine_together() -> None:
    around = Around()
    async with links(around) as ours:
        ours.bind(Bound(1, target(1)))
        await around.engine.get()
        ours.push(encoded_blocks("t:1", (block(1),)))
        await around.targets["t:1"].got.get()
        receipt = Receipt(ticket(1), 1, 7, ReceiptCode.TAKEN)
        verdict = VerdictNotice(ticket(1), 1, 7, 2, 9)
        unknown = Receipt(ticket(1), 2, 8, ReceiptCode.UNKNOWN)
        for answer in (receipt, unknown, verdict):
            around.links[0].send(answer)
        answers = await around.engine.get()
        assert isinstance(answers, Answers)
        assert answers.answers == (unknown, verdict)  # that a block was taken is nothing to act on
        assert answers.arrived_ns > 0


async def test_blocks_go_nowhere_while_there_is_no_link() -> None:
    around = Around()
    async with links(around) as ours:
        ours.bind(Bound(1, target(1)))
        assert ours.push(encoded_blocks("t:1", (block(1),))) == {"block_without_link": 1}
        assert ours.push(encoded_blocks("t:9", (block(9),))) == {"block_without_link": 1}
        await around.engine.get()
        ours.release(ticket(1))
        assert ours.push(encoded_blocks("t:1", (block(1),))) == {"block_without_link": 1}


async def test_a_block_that_cannot_be_encoded_harms_no_other() -> None:
    around = Around()
    async with links(around) as ours:
        ours.bind(Bound(1, target(1)))
        await around.engine.get()
        bad = Block(b"short", 1, 0, 7, (1,), Drafter.MODEL)
        assert ours.push(encoded_blocks("t:1", (bad, block(1)))) == {"block_without_link": 1, "block_sent": 1}
        assert await around.targets["t:1"].got.get() == block(1)


async def test_another_instance_is_reported_and_gets_nothing() -> None:
    around = Around()
    async with links(around) as ours:
        ours.bind(Bound(1, target(1, instance="T0")))
        ours.bind(Bound(2, target(2)))
        await around.engine.get()
        assert around.told == [(1, LinkState(ticket(1), "T1", up=False))]
        assert ours.push(encoded_blocks("t:1", (block(1), block(2)))) == {"block_without_link": 1, "block_sent": 1}


async def test_down_and_up_are_told_to_every_ticket_once() -> None:
    around = Around()
    async with links(around) as ours:
        ours.bind(Bound(1, target(1)))
        ours.bind(Bound(2, target(2)))
        await around.engine.get()
        around.links[0].close()
        await around.is_up()
        assert around.told == [
            (stream, LinkState(ticket(stream), "T1", up=up)) for up in (False, True) for stream in (1, 2)
        ]


async def test_a_target_that_may_not_be_dialled_is_down() -> None:
    around = Around()
    async with links(around) as ours:
        ours.bind(Bound(1, target(1, address="far:1")))
        assert around.told == [(1, LinkState(ticket(1), "T1", up=False))]
        assert around.counted == ["target_refused"]


async def test_a_link_that_nobody_uses_is_closed_after_a_while() -> None:
    around = Around()
    async with links(around, linger_s=0.05) as ours:
        ours.bind(Bound(1, target(1)))
        await around.engine.get()
        ours.release(ticket(1))
        ours.bind(Bound(1, target(2)))  # taken up again in time
        await asyncio.sleep(0.1)
        assert around.targets["t:1"].downs == []
        ours.forget()
        await asyncio.wait_for(around.targets["t:1"].went_down.wait(), 20.0)
        ours.bind(Bound(1, target(3)))
        await around.is_up()
        assert around.dialled == ["t:1", "t:1"]


async def test_a_link_that_does_not_come_up_is_dialled_only_while_it_is_used() -> None:
    around = Around()
    async with links(around) as ours:
        ours.bind(Bound(1, target(1, address="dead:1")))
        await asyncio.wait_for(around.refused.wait(), 20.0)
        ours.release(ticket(1))
        before = len(around.dialled)
        await asyncio.sleep(0.3)
        assert len(around.dialled) == before
        assert around.told == [(1, LinkState(ticket(1), "T1", up=False))]
