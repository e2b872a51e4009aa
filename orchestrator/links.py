"""Keeps a link to every target and draft: asks what the peer is, checks that it fits, attaches, dials again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

import grpc.aio
import structlog

from foreword.errors import ForewordError, Mismatch
from foreword.protocol.info import ServerInfo
from foreword.protocol.messages import DraftCommand, DraftEvent, TargetCommand, TargetEvent
from foreword.rpc.calls import call_unary
from foreword.rpc.dialler import Backoff, Dialler
from foreword.rpc.link import Link, LinkOptions
from foreword.rpc.tls import TlsFiles, open_channel
from foreword.rpc.transport import Dial, Transport, dial_on
from foreword.wire.common import Attributed
from foreword.wire.frames import DraftAttachClient, FrameCodec, TargetAttachClient
from foreword.wire.info import decode_draft_info, decode_target_info
from foreword.wire.limits import Limits
from foreword.wire.methods import DRAFT_ATTACH, DRAFT_GET_INFO, TARGET_ATTACH, TARGET_GET_INFO
from orchestrator.pools.drafts import DraftPeer, DraftPool
from orchestrator.pools.peer import Line, Peer
from orchestrator.pools.targets import TargetPeer, TargetPool

Command = TypeVar("Command")
Event = TypeVar("Event")

_log = structlog.stdlib.get_logger(__name__)

BACKOFF = Backoff(first_s=0.05, most_s=2.0)
"""A peer that comes back is of use at once."""


@dataclass(frozen=True, slots=True)
class Reach:
    """How peers are reached, and as whom."""

    instance: str
    tls: TlsFiles | None
    insecure: bool
    link: LinkOptions


class LinkLine(Generic[Command, Event]):
    """A link as the pools see it."""

    def __init__(self, link: Link[Command, Attributed[Event]]) -> None:
        self._link = link
        self.send = link.send

    def round_trip_us(self) -> int | None:
        """Return the recent median round-trip time."""
        return self._link.round_trip.median_us

    def newest_round_trip_us(self) -> int | None:
        """Return the last round-trip time."""
        return self._link.round_trip.newest_us


class PeerLink(Generic[Command, Event]):
    """Handles the links to one peer, one after the other."""

    def __init__(
        self,
        peer: Peer[Command, Event],
        came_up: Callable[[Line[Command], ServerInfo, str], None],
        now_us: Callable[[], int],
        *,
        went_down: Callable[[], None] = lambda: None,
        lost: Callable[[], None],
    ) -> None:
        self.info: ServerInfo | None = None
        """What the peer said before it was attached to."""
        self._peer = peer
        self._came_up = came_up
        self._now_us = now_us
        self._went_down = went_down
        self._lost = lost

    def up(self, link: Link[Command, Attributed[Event]]) -> None:
        """The peer answered: sessions may use it."""
        assert link.peer is not None
        assert self.info is not None
        self._came_up(LinkLine(link), self.info, link.peer.instance)
        _log.info("peer up", peer=self._peer.address, instance=link.peer.instance)

    def received(self, link: Link[Command, Attributed[Event]], entries: Sequence[Attributed[Event]]) -> None:
        """Bring a frame's events to their sessions."""
        self._peer.received(entries, self._now_us())

    def down(self, link: Link[Command, Attributed[Event]], error: ForewordError | None) -> None:
        """The link is over, or never came up."""
        reason = error.message if error is not None else "the peer ended the stream"
        was_up = self._peer.up
        if was_up:
            _log.warning("peer down", peer=self._peer.address, reason=reason)
        self._peer.went_down(reason)
        self._went_down()
        if was_up:
            self._lost()


def target_dialler(
    peer: TargetPeer,
    pool: TargetPool,
    reach: Reach,
    now_us: Callable[[], int],
    *,
    changed: Callable[[], None],
    lost: Callable[[], None],
) -> Dialler[TargetCommand, Attributed[TargetEvent]]:
    """Return what keeps the link to a target up.

    `changed` is called when it has come up or gone down, failed attempts included; `lost` when it was up and is down.
    """

    def check(info: ServerInfo) -> None:
        misfit = pool.misfit(info)
        if misfit:
            raise Mismatch(misfit)

    def came_up(line: Line[TargetCommand], info: ServerInfo, instance: str) -> None:
        check(info)  # again: of targets that are asked at the same moment, the first to come up says what is served
        pool.came_up(peer, line, info, instance)
        changed()

    handler: PeerLink[TargetCommand, TargetEvent] = PeerLink(peer, came_up, now_us, went_down=changed, lost=lost)

    async def ask(channel: grpc.aio.Channel) -> None:
        limits = Limits()
        info = await call_unary(channel, TARGET_GET_INFO, decode=lambda data: decode_target_info(data, limits))
        check(info)
        handler.info = info

    return _dialler(peer, handler, ask, TARGET_ATTACH, reach, codec=lambda: TargetAttachClient(Limits()))


def draft_dialler(
    peer: DraftPeer,
    pool: DraftPool,
    targets: TargetPool,
    reach: Reach,
    now_us: Callable[[], int],
    *,
    lost: Callable[[], None],
) -> Dialler[DraftCommand, Attributed[DraftEvent]]:
    """Return what keeps the link to a draft up; one that does not fit stays linked and is not used."""

    def came_up(line: Line[DraftCommand], info: ServerInfo, instance: str) -> None:
        pool.came_up(peer, line, info, instance)
        misfit = pool.misfit(peer, targets.model)
        if misfit:
            _log.warning("draft not used", peer=peer.address, reason=misfit)

    handler: PeerLink[DraftCommand, DraftEvent] = PeerLink(peer, came_up, now_us, lost=lost)

    async def ask(channel: grpc.aio.Channel) -> None:
        limits = Limits()
        found = await call_unary(channel, DRAFT_GET_INFO, decode=lambda data: decode_draft_info(data, limits))
        handler.info, peer.vocabulary_map = found.server, found.vocabulary_map_digest

    return _dialler(peer, handler, ask, DRAFT_ATTACH, reach, codec=lambda: DraftAttachClient(Limits()))


def _dialler(
    peer: Peer[Command, Event],
    handler: PeerLink[Command, Event],
    ask: Callable[[grpc.aio.Channel], Awaitable[None]],
    method: str,
    reach: Reach,
    *,
    codec: Callable[[], FrameCodec[Command, Attributed[Event]]],
) -> Dialler[Command, Attributed[Event]]:
    def new_link() -> Link[Command, Attributed[Event]]:
        return Link(codec(), handler, instance=reach.instance, options=reach.link)

    return Dialler(_dial(peer, ask, method, reach), new_link, peer=peer.address, backoff=BACKOFF)


def _dial(
    peer: Peer[Command, Event], ask: Callable[[grpc.aio.Channel], Awaitable[None]], method: str, reach: Reach
) -> Dial:
    """Return a Dial with a channel of its own for each attempt, so that host names are looked up again."""
    authority = peer.name.authority if peer.name is not None else None

    @asynccontextmanager
    async def dial() -> AsyncIterator[Transport]:
        async with open_channel(peer.address, tls=reach.tls, insecure=reach.insecure, authority=authority) as channel:
            await ask(channel)
            async with dial_on(channel, method)() as transport:
                yield transport

    return dial
