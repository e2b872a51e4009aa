"""A draft over real gRPC with its engine process, and peers that are scripted by the tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from draft_service.metrics import DraftMetrics
from draft_service.service import DraftProcess
from draft_service.settings import DrafterChoice, DraftSettings
from foreword.errors import ForewordError
from foreword.laws.parameters import LawParameters
from foreword.protocol.digest import EMPTY, extend
from foreword.protocol.info import DraftInfo
from foreword.protocol.messages import (
    Advance,
    Block,
    DraftKeys,
    DraftOpen,
    Receipt,
    TargetAddress,
    Tokens,
    VerdictNotice,
)
from foreword.protocol.words import ReceiptCode, Rule
from foreword.rpc.link import Link, LinkOptions
from foreword.rpc.roles import ALL_ROLES, RolePolicy
from foreword.rpc.server import RpcServer, ServerOptions
from foreword.rpc.services import Context, Service, link_stream
from foreword.rpc.tls import TlsFiles, open_channel
from foreword.rpc.transport import Transport, dial_on
from foreword.telemetry.metrics import new_registry
from foreword.wire.frames import DraftAttachClient, PushBlocksServer
from foreword.wire.info import decode_draft_info
from foreword.wire.limits import Limits
from foreword.wire.methods import DRAFT_ATTACH, DRAFT_GET_INFO, TARGET_SERVICE

MODEL = "synthetic:vocab=64,step_ms=0.2,context=512"
PROMPT = tuple(range(1, 21))
GREEDY = LawParameters(temperature=0.0)
WAIT_S = 120.0
M = TypeVar("M")


@dataclass
class Ear:
    """The handler of a scripted peer's link: keeps what comes."""

    came: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)
    link: Link[Any, Any] | None = None
    is_up: asyncio.Event = field(default_factory=asyncio.Event)

    def up(self, link: Link[Any, Any]) -> None:
        self.link = link
        self.is_up.set()

    def received(self, link: Link[Any, Any], entries: Sequence[Any]) -> None:
        for entry in entries:
            self.came.put_nowait(entry[1] if isinstance(entry, tuple) else entry)

    def down(self, link: Link[Any, Any], error: ForewordError | None) -> None:
        self.is_up.clear()
        self.came.put_nowait(error)

    def send(self, *messages: Any) -> None:
        assert self.link is not None
        for message in messages:
            assert self.link.send(message)

    async def next(self, kind: type[M], *, within_s: float = WAIT_S) -> M:
        """Return the next message of this kind; others before it are skipped."""
        async with asyncio.timeout(within_s):
            while True:
                message = await self.came.get()
                if isinstance(message, kind):
                    return message


class ScriptedTarget(Ear):
    """A target that takes blocks and answers as the test says."""

    def __init__(self, instance: str, *, tls: TlsFiles | None = None, roles: RolePolicy | None = None) -> None:
        super().__init__()
        self.instance = instance
        service = Service(TARGET_SERVICE, {"PushBlocks": link_stream(self._push, roles=ALL_ROLES)})
        options = ServerOptions(tls=tls, roles=roles or RolePolicy(), grace_s=0.1)
        self._server = RpcServer(options, [service])
        self.address = ""

    async def __aenter__(self) -> ScriptedTarget:
        self.address = await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop()

    async def _push(self, transport: Transport, _: Context) -> None:
        await Link(PushBlocksServer(Limits()), self, instance=self.instance).run(transport)

    async def block(self, round: int) -> Block:
        """Return the block for a round; one that crossed with the link's coming up comes twice."""
        while True:
            block = await self.next(Block)
            if block.round == round:
                return block

    def verdict(self, block: Block, kept: int, emitted: int) -> None:
        self.send(
            Receipt(block.ticket, block.round, block.digest, ReceiptCode.TAKEN),
            VerdictNotice(block.ticket, block.round, block.digest, kept, emitted),
        )

    def ticket(self, number: int) -> TargetAddress:
        return TargetAddress(self.address, self.instance, number.to_bytes(16, "little"))


class ScriptedOrchestrator(Ear):
    """An orchestrator's end of Attach, with the committed tokens of its sessions."""

    def __init__(self) -> None:
        super().__init__()
        self._output: dict[int, Tokens] = {}
        self._digests: dict[int, int] = {}

    def open(self, sid: int, target: TargetAddress, **fields: Any) -> None:
        values = {"tokens": PROMPT, "law": GREEDY, "keys": DraftKeys(bytes(16), bytes(16)), "gamma_max": 8, **fields}
        self._output[sid], self._digests[sid] = (), extend(EMPTY, values["tokens"])
        self.send(DraftOpen(sid=sid, prompt_len=len(values["tokens"]), target=target, **values))

    def order(self, sid: int, round: int, tokens: Tokens = (), **fields: Any) -> None:
        self._output[sid] += tokens
        self._digests[sid] = extend(self._digests[sid], tokens)
        values = {"rule": Rule.MATCH, "gamma": 4, **fields}
        self.send(Advance(sid, round, len(self._output[sid]), tokens, self._digests[sid], **values))

    def digest(self, sid: int) -> int:
        return self._digests[sid]


class RunningDraft:
    """A draft that runs in this process, its engine in another."""

    def __init__(self, settings: DraftSettings) -> None:
        self.registry = new_registry()
        self.process = DraftProcess(settings, DraftMetrics(self.registry))
        self.stop = asyncio.Event()
        self.address = ""
        self.task: asyncio.Task[None] | None = None
        self._file = settings.address_file

    async def __aenter__(self) -> RunningDraft:
        self.task = asyncio.create_task(self.process.serve(self.stop))
        assert self._file is not None
        async with asyncio.timeout(300.0):
            while not self._file.exists():
                if self.task.done():
                    await self.task
                await asyncio.sleep(0.01)
        self.address = self._file.read_text().strip()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop.set()
        assert self.task is not None
        await asyncio.wait_for(self.task, WAIT_S)

    async def info(self, tls: TlsFiles | None = None) -> DraftInfo:
        async with open_channel(self.address, tls=tls) as channel:
            return decode_draft_info(await channel.unary_unary(DRAFT_GET_INFO)(b""), Limits())

    @asynccontextmanager
    async def orchestrator(self, tls: TlsFiles | None = None) -> AsyncIterator[ScriptedOrchestrator]:
        ear = ScriptedOrchestrator()
        link: Link[Any, Any] = Link(DraftAttachClient(Limits()), ear, instance="O1", options=LinkOptions())
        async with open_channel(self.address, tls=tls) as channel, dial_on(channel, DRAFT_ATTACH)() as transport:
            running = asyncio.create_task(link.run(transport))
            try:
                waiting = asyncio.create_task(ear.is_up.wait())
                await asyncio.wait((running, waiting), timeout=WAIT_S, return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                if running.done() and (error := running.result()) is not None:
                    raise error
                yield ear
            finally:
                link.close()
                await running

    async def next_engine(self) -> int:
        """Wait for an engine and return its process id."""
        for _ in range(3000):
            if self.process.engine_pid is not None:
                return self.process.engine_pid
            await asyncio.sleep(0.02)
        raise TimeoutError

    def count(self, event: str) -> float:
        return self.registry.get_sample_value("foreword_draft_events_total", {"event": event}) or 0.0


Start = Callable[..., RunningDraft]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Return a function that makes a draft with these settings; enter it to start it."""

    def make(drafter: DrafterChoice = DrafterChoice.SYNTHETIC, **settings: Any) -> RunningDraft:
        values = {"model": MODEL, "grace_s": 0.1, "threads": 1, "address_file": tmp_path / "address", **settings}
        return RunningDraft(DraftSettings(drafter=drafter, **values))

    return make


@pytest.fixture
async def scene(start: Start) -> AsyncIterator[tuple[RunningDraft, ScriptedTarget, ScriptedOrchestrator]]:
    """A synthetic draft, a target and an orchestrator."""
    async with AsyncExitStack() as stack:
        target = await stack.enter_async_context(ScriptedTarget("T1"))
        draft = await stack.enter_async_context(start())
        orchestrator = await stack.enter_async_context(draft.orchestrator())
        yield draft, target, orchestrator
