"""The links to targets: one for each address, dialled when a session needs it and kept while sessions use it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from draft_service.core.session import is_news
from draft_service.engine_messages import Answers, Bound, EncodedBlocks, LinkUp, ToEngine
from foreword.errors import ForewordError
from foreword.protocol.messages import Block, DraftEvent, LinkState, Receipt, TargetAddress, VerdictNotice
from foreword.rpc.dialler import Backoff, Dialler
from foreword.rpc.link import Link, LinkOptions
from foreword.rpc.transport import Dial
from foreword.wire.blocks import BlockBody
from foreword.wire.frames import PushBlocksClient
from foreword.wire.limits import Limits

Answer = tuple[bytes | None, Receipt | VerdictNotice | ForewordError]
PushLink = Link[Block | BlockBody, Answer]

LINGER_S = 60.0
"""How long a link that works is kept when no session uses it."""
BACKOFF = Backoff(first_s=0.05, most_s=1.0)
"""Sessions wait for these links, so that attempts are not far apart."""

_log = structlog.stdlib.get_logger(__name__)


class Surroundings(Protocol):
    """What target links need around them."""

    def dial(self, address: str) -> Dial:
        """Return how the target at an address is reached; raises ForewordError if it may not be."""

    def to_engine(self, message: ToEngine) -> None:
        """Hand a message to the engine."""

    def tell(self, stream: int, event: DraftEvent) -> None:
        """Send an event to the orchestrator of a stream."""

    def count(self, name: str) -> None:
        """Count something that went wrong or was ignored."""


@dataclass(slots=True)
class _Use:
    """A ticket in use: who wants to know about its link, and what was said last."""

    stream: int
    target: TargetAddress
    said: LinkState | None = None


class _TargetLink:
    """One target address: the handler of its links, and the tickets that use it."""

    def __init__(self, address: str, around: Surroundings) -> None:
        self.address = address
        self.uses: dict[bytes, _Use] = {}
        self.link: PushLink | None = None
        """The link if it is up."""
        self.linger: asyncio.TimerHandle | None = None
        self._around = around

    def up(self, link: PushLink) -> None:
        """The target answered: offer it what could not be sent meanwhile, if it is the instance that was meant."""
        assert link.peer is not None
        self.link = link
        for use in self.uses.values():
            self.report(use)
        self._around.to_engine(LinkUp(self.address, link.peer.instance, time.monotonic_ns()))

    def received(self, link: PushLink, entries: Sequence[Answer]) -> None:
        """Pass receipts and verdicts on; the continuation of a block starts with its verdict."""
        arrived_ns = time.monotonic_ns()
        answers = tuple(answer for _, answer in entries if not isinstance(answer, ForewordError) and is_news(answer))
        if answers:
            self._around.to_engine(Answers(arrived_ns, answers))
        for _, error in entries:
            if isinstance(error, ForewordError):
                self._around.count("bad_answer")
                _log.warning("bad answer", target=self.address, reason=error.message)

    def down(self, link: PushLink, error: ForewordError | None) -> None:
        """The link is over or never came up."""
        self.link = None
        for use in self.uses.values():
            self.report(use, down=True)

    def report(self, use: _Use, *, down: bool = False) -> None:
        """Tell the orchestrator of a ticket how its link is, if that is news."""
        instance = self.link.peer.instance if self.link is not None and self.link.peer is not None else ""
        if not instance and not down:
            return  # being dialled: nothing is known yet
        state = LinkState(use.target.ticket, instance or use.target.instance, up=self._reaches(use))
        if state != use.said and (use.said is not None or not state.up):
            self._around.tell(use.stream, state)
        use.said = state

    def push(self, block: BlockBody) -> bool:
        """Send a block if its target instance can be reached; it is offered again when the link comes up."""
        use = self.uses.get(block.ticket)
        if self.link is None or use is None or not self._reaches(use):
            return False
        return self.link.send(block)

    def _reaches(self, use: _Use) -> bool:
        """Whether the link leads to the instance that knows the ticket; one that was restarted does not."""
        if self.link is None or self.link.peer is None:
            return False
        return use.target.instance in ("", self.link.peer.instance)


@dataclass(slots=True)
class _Dialled:
    target: _TargetLink
    dialler: Dialler[Block | BlockBody, Answer]
    task: asyncio.Task[None] = field(repr=False)


class TargetLinks:
    """All target links of a draft service; used from the event loop."""

    def __init__(
        self,
        around: Surroundings,
        *,
        instance: str,
        limits: Callable[[], Limits],
        options: LinkOptions | None = None,
        linger_s: float = LINGER_S,
    ) -> None:
        self._around = around
        self._instance = instance
        self._limits = limits
        self._options = options
        self._linger_s = linger_s
        self._dialled: dict[str, _Dialled] = {}
        self._addresses: dict[bytes, str] = {}  # ticket → address
        self._retiring: set[asyncio.Task[None]] = set()

    def bind(self, message: Bound) -> None:
        """Take note of a ticket in use, and dial its target unless it is dialled already."""
        address = message.target.address
        use = _Use(message.stream, message.target)
        try:
            dialled = self._dialled.get(address) or self._start(address)
        except ForewordError as error:
            self._around.tell(message.stream, LinkState(message.target.ticket, message.target.instance, up=False))
            self._around.count("target_refused")
            _log.warning("target refused", target=address, reason=error.message)
            return
        if dialled.target.linger is not None:
            dialled.target.linger.cancel()
            dialled.target.linger = None
        dialled.target.uses[message.target.ticket] = use
        self._addresses[message.target.ticket] = address
        dialled.target.report(use)

    def release(self, ticket: bytes) -> None:
        """Forget a ticket; a link that nobody uses is closed after a while, one that does not come up at once."""
        address = self._addresses.pop(ticket, None)
        dialled = self._dialled.get(address) if address is not None else None
        if dialled is None:
            return
        target = dialled.target
        target.uses.pop(ticket, None)
        if not target.uses and target.link is None:
            self._retire(target.address)
        elif not target.uses and target.linger is None:
            target.linger = asyncio.get_running_loop().call_later(self._linger_s, self._retire, target.address)

    def push(self, message: EncodedBlocks) -> Counter[str]:
        """Send blocks to their target; returns what became of them by name."""
        dialled = self._dialled.get(message.target)
        fates: Counter[str] = Counter()
        for block in message.blocks:
            try:
                sent = dialled is not None and dialled.target.push(block)
            except ForewordError as error:
                _log.warning("block cannot be sent", target=message.target, reason=error.message)
                sent = False
            fates["block_sent" if sent else "block_without_link"] += 1
        return fates

    def forget(self) -> None:
        """Forget all tickets: the engine that used them is gone."""
        for ticket in list(self._addresses):
            self.release(ticket)

    async def close(self) -> None:
        """Close all links in good order."""
        self._addresses.clear()
        for address, dialled in list(self._dialled.items()):
            dialled.target.uses.clear()
            self._retire(address)
        tasks = set(self._retiring)
        if tasks:
            await asyncio.wait(tasks, timeout=1.0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, address: str) -> _Dialled:
        target = _TargetLink(address, self._around)

        def new_link() -> PushLink:
            codec = PushBlocksClient(self._limits())
            return Link(codec, target, instance=self._instance, options=self._options)

        dialler = Dialler(self._around.dial(address), new_link, peer=address, backoff=BACKOFF)
        dialled = _Dialled(target, dialler, asyncio.get_running_loop().create_task(dialler.run()))
        self._dialled[address] = dialled
        return dialled

    def _retire(self, address: str) -> None:
        dialled = self._dialled.get(address)
        if dialled is not None and not dialled.target.uses:
            del self._dialled[address]
            self._stop(dialled)
            self._retiring.add(dialled.task)
            dialled.task.add_done_callback(self._retiring.discard)

    def _stop(self, dialled: _Dialled) -> None:
        if dialled.target.linger is not None:
            dialled.target.linger.cancel()
        dialled.dialler.stop()
