"""A target over real gRPC, and peers that are scripted by the tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import grpc.aio
import pytest

from foreword.errors import ForewordError
from foreword.protocol.info import ServerInfo
from foreword.rpc.link import Link
from foreword.rpc.tls import open_channel
from foreword.rpc.transport import dial_on
from foreword.wire.frames import FrameCodec, PushBlocksClient, TargetAttachClient
from foreword.wire.info import decode_target_info
from foreword.wire.limits import Limits
from foreword.wire.methods import TARGET_ATTACH, TARGET_GET_INFO, TARGET_PUSH_BLOCKS
from target_service.service import run
from target_service.settings import TargetSettings

MODEL = "synthetic:vocab=64,step_ms=2"
START_S, WAIT_S = 300.0, 120.0
M = TypeVar("M")


@dataclass
class Ear:
    """The handler of a scripted peer's link: keeps what comes."""

    came: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)
    is_up: asyncio.Event = field(default_factory=asyncio.Event)

    def up(self, link: Link[Any, Any]) -> None:
        self.is_up.set()

    def received(self, link: Link[Any, Any], entries: Sequence[tuple[Any, Any]]) -> None:
        for _, entry in entries:
            self.came.put_nowait(entry)

    def down(self, link: Link[Any, Any], error: ForewordError | None) -> None:
        self.came.put_nowait(error)


class ScriptedPeer:
    """One end of a link whose messages the test writes."""

    def __init__(self, link: Link[Any, Any], ear: Ear) -> None:
        self.link = link
        self._ear = ear

    def send(self, *messages: Any) -> None:
        for message in messages:
            assert self.link.send(message)

    async def next(self, kind: type[M]) -> M:
        """Return the next message of this kind; others before it are skipped."""
        while True:
            message = await asyncio.wait_for(self._ear.came.get(), WAIT_S)
            if isinstance(message, kind):
                return message


@dataclass
class RunningTarget:
    """A target that runs in this process, and ways to reach it."""

    address: str
    channel: grpc.aio.Channel
    stop: asyncio.Event
    task: asyncio.Task[None]

    async def info(self) -> ServerInfo:
        return decode_target_info(await self.channel.unary_unary(TARGET_GET_INFO)(b""), Limits())

    @asynccontextmanager
    async def orchestrator(self) -> AsyncIterator[ScriptedPeer]:
        async with self._peer(TARGET_ATTACH, TargetAttachClient(Limits())) as peer:
            yield peer

    @asynccontextmanager
    async def draft(self) -> AsyncIterator[ScriptedPeer]:
        async with self._peer(TARGET_PUSH_BLOCKS, PushBlocksClient(Limits())) as peer:
            yield peer

    @asynccontextmanager
    async def _peer(self, method: str, codec: FrameCodec[Any, Any]) -> AsyncIterator[ScriptedPeer]:
        ear = Ear()
        link: Link[Any, Any] = Link(codec, ear, instance="scripted")
        async with dial_on(self.channel, method)() as transport:
            running = asyncio.create_task(link.run(transport))
            await asyncio.wait_for(ear.is_up.wait(), WAIT_S)
            try:
                yield ScriptedPeer(link, ear)
            finally:
                link.close()
                await running


@asynccontextmanager
async def _target(folder: Path, **settings: Any) -> AsyncIterator[RunningTarget]:
    address_file = folder / "address"
    stop = asyncio.Event()
    given = {"model": MODEL, "grace_s": 0.2, "threads": 1, "address_file": address_file, **settings}
    task = asyncio.create_task(run(TargetSettings(**given), stop=stop))
    try:
        async with asyncio.timeout(START_S):
            while not address_file.exists():
                if task.done():
                    await task
                await asyncio.sleep(0.02)
        address = address_file.read_text().strip()
        async with open_channel(address, tls=None) as channel:
            yield RunningTarget(address, channel, stop, task)
    finally:
        stop.set()
        await asyncio.wait_for(task, WAIT_S)


@pytest.fixture
def start_target(tmp_path: Path) -> Callable[..., Any]:
    """Return a context manager that runs a target with these settings."""

    def start(**settings: Any) -> Any:
        return _target(tmp_path, **settings)

    return start
