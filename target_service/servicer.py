"""TargetService over gRPC: every stream becomes a link, every link goes through the hub."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from foreword.errors import ForewordError, Unavailable
from foreword.protocol.info import ServerInfo
from foreword.protocol.messages import Block, TargetCommand
from foreword.rpc.link import Link, LinkOptions
from foreword.rpc.roles import Role
from foreword.rpc.services import Context, Service, link_stream, unary
from foreword.rpc.transport import Transport
from foreword.wire.blocks import BadBlock
from foreword.wire.common import Attributed
from foreword.wire.frames import PushBlocksServer, TargetAttachServer
from foreword.wire.info import encode_target_info
from foreword.wire.limits import Limits
from foreword.wire.methods import TARGET_SERVICE
from target_service.hub import AttachLink, BlocksLink, Hub

_log = structlog.stdlib.get_logger(__name__)


class TargetServicer:
    """Serves Attach, PushBlocks and GetInfo. `info` raises Unavailable until the first engine is warm."""

    def __init__(
        self, hub: Hub, *, instance: str, info: Callable[[], ServerInfo], link_options: LinkOptions | None = None
    ) -> None:
        self._hub = hub
        self._instance = instance
        self._info = info
        self._options = link_options or LinkOptions()

    def service(self) -> Service:
        """Return the table of methods and who may call them."""
        return Service(
            TARGET_SERVICE,
            {
                "GetInfo": unary(self._get_info, decode=_read_nothing, encode=encode_target_info),
                "Attach": link_stream(self._attach, roles=frozenset({Role.ORCHESTRATOR})),
                "PushBlocks": link_stream(self._push_blocks, roles=frozenset({Role.DRAFT})),
            },
        )

    async def _get_info(self, _: None, __: Context) -> ServerInfo:
        return self._info()

    async def _attach(self, transport: Transport, _: Context) -> None:
        handler = _Attach(self._hub)
        link = Link(TargetAttachServer(self._limits()), handler, instance=self._instance, options=self._options)
        _raise(await link.run(transport))

    async def _push_blocks(self, transport: Transport, _: Context) -> None:
        handler = _PushBlocks(self._hub)
        codec = PushBlocksServer(self._limits(), known=self._hub.knows)
        link = Link(codec, handler, instance=self._instance, options=self._options)
        _raise(await link.run(transport))

    def _limits(self) -> Limits:
        model = self._info().model
        if model is None:
            raise Unavailable("the model is being loaded")
        return Limits(vocabulary=model.vocabulary_size)


class _Attach:
    """One orchestrator's stream."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._number: int | None = None

    def up(self, link: AttachLink) -> None:
        self._number = self._hub.stream_up(link)
        _log.info("orchestrator attached", stream=self._number, peer=link.peer.instance if link.peer else "")

    def received(self, link: AttachLink, entries: Sequence[Attributed[TargetCommand]]) -> None:
        assert self._number is not None
        self._hub.commands_came(self._number, entries)

    def down(self, link: AttachLink, error: ForewordError | None) -> None:
        if self._number is not None:
            self._hub.stream_down(self._number)
            _log.info("orchestrator gone", stream=self._number, reason=str(error or ""))


class _PushBlocks:
    """One draft's stream."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._number: int | None = None

    def up(self, link: BlocksLink) -> None:
        self._number = self._hub.link_up(link)
        _log.info("draft linked", link=self._number, peer=link.peer.instance if link.peer else "")

    def received(self, link: BlocksLink, entries: Sequence[Block | BadBlock]) -> None:
        assert self._number is not None
        self._hub.blocks_came(self._number, entries)

    def down(self, link: BlocksLink, error: ForewordError | None) -> None:
        if self._number is not None:
            self._hub.link_down(self._number)
            _log.info("draft gone", link=self._number, reason=str(error or ""))


def _raise(error: ForewordError | None) -> None:
    if error is not None:
        raise error


def _read_nothing(data: bytes) -> None:
    """Take the empty request of GetInfo; fields that a later release adds are ignored."""
