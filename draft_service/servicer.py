"""DraftService over gRPC: streams of orchestrators to the engine and back; no rule of the protocol is here."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

import structlog

from draft_service.engine_messages import BadCommand, Commands, Events, StreamEnded, ToEngine
from foreword.errors import ForewordError
from foreword.protocol.info import DraftInfo
from foreword.protocol.messages import DraftCommand, DraftEvent
from foreword.rpc.link import Link, LinkOptions
from foreword.rpc.roles import Role
from foreword.rpc.services import Context, Service, link_stream, unary
from foreword.rpc.transport import Transport
from foreword.telemetry.seldom import Seldom
from foreword.wire.common import Attributed
from foreword.wire.frames import DraftAttachServer
from foreword.wire.info import encode_draft_info
from foreword.wire.limits import Limits
from foreword.wire.methods import DRAFT_SERVICE

AttachLink = Link[DraftEvent, Attributed[DraftCommand]]

_log = structlog.stdlib.get_logger(__name__)


class Surroundings(Protocol):
    """What the servicer needs around it."""

    def admit(self) -> None:
        """Raise ForewordError if no orchestrator can be served now."""

    def limits(self) -> Limits:
        """Return what frames may hold."""

    def info(self) -> DraftInfo:
        """Return what the service is."""

    def to_engine(self, message: ToEngine) -> None:
        """Hand a message to the engine."""

    def count(self, name: str) -> None:
        """Count something that went wrong or was ignored."""


class DraftServicer:
    """The methods of DraftService."""

    def __init__(self, around: Surroundings, *, instance: str, options: LinkOptions | None = None) -> None:
        self._around = around
        self._instance = instance
        self._options = options
        self._links: dict[int, AttachLink] = {}
        self._next_stream = 1

    def service(self) -> Service:
        """Return what the server registers."""
        return Service(
            DRAFT_SERVICE,
            {
                "GetInfo": unary(self.get_info, decode=bytes, encode=encode_draft_info),
                "Attach": link_stream(self.attach, roles=frozenset({Role.ORCHESTRATOR})),
            },
        )

    @property
    def streams(self) -> list[int]:
        """Streams that are open."""
        return list(self._links)

    async def get_info(self, _: bytes, __: Context) -> DraftInfo:
        """Say what the service is."""
        return self._around.info()

    async def attach(self, transport: Transport, _: Context) -> None:
        """Serve one orchestrator's stream until it ends, and release what was opened on it."""
        self._around.admit()
        stream, self._next_stream = self._next_stream, self._next_stream + 1
        handler = _StreamHandler(stream, self._around)
        codec = DraftAttachServer(self._around.limits())
        link = Link(codec, handler, instance=self._instance, options=self._options)
        self._links[stream] = link
        try:
            reason = await link.run(transport)
        finally:
            del self._links[stream]
        if reason is not None:
            raise reason

    def deliver(self, message: Events) -> None:
        """Send events to the orchestrator of their stream; one that is gone has lost its sessions already."""
        link = self._links.get(message.stream)
        if link is None:
            return
        for event in message.events:
            link.send(event)

    def tell_all(self, event: DraftEvent) -> None:
        """Send an event to every orchestrator."""
        for stream in self.streams:
            self.deliver(Events(stream, (event,)))

    def abort_all(self, error: ForewordError) -> None:
        """End every stream at once; orchestrators take it as the loss of all their sessions here."""
        for link in list(self._links.values()):
            link.abort(error)

    def close_all(self) -> None:
        """End every stream in good order, after what is queued."""
        for link in list(self._links.values()):
            link.close()


class _StreamHandler:
    """Hands one stream's commands to the engine."""

    def __init__(self, stream: int, around: Surroundings) -> None:
        self._stream = stream
        self._around = around
        self._bad = Seldom()

    def up(self, link: AttachLink) -> None:
        """An orchestrator is there."""
        _log.info("orchestrator attached", stream=self._stream, peer=link.peer.instance if link.peer else "")

    def received(self, link: AttachLink, entries: Sequence[Attributed[DraftCommand]]) -> None:
        """Pass a frame's commands on, with the time of their arrival."""
        arrived_ns = time.monotonic_ns()
        commands: list[DraftCommand | BadCommand] = []
        for sid, command in entries:
            if not isinstance(command, ForewordError):
                commands.append(command)
            elif sid is not None:
                commands.append(BadCommand(sid, command.message))
            else:
                self._around.count("bad_command")
                if (left_out := self._bad.due()) is not None:
                    _log.warning("bad command", stream=self._stream, reason=command.message, left_out=left_out)
        if commands:
            self._around.to_engine(Commands(self._stream, arrived_ns, tuple(commands)))

    def down(self, link: AttachLink, error: ForewordError | None) -> None:
        """The stream is over, and with it its sessions."""
        _log.info("orchestrator detached", stream=self._stream, reason=str(error) if error else "in good order")
        self._around.to_engine(StreamEnded(self._stream))
