"""One target or draft: its link while there is one, what it said of itself, and the sessions on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import structlog

from foreword.errors import ForewordError, ProtocolFault
from foreword.protocol.generation import PeerInfo
from foreword.protocol.info import ServerInfo
from foreword.protocol.messages import LinkState, LoadReport, Lost, Refused
from foreword.protocol.words import LossCode, RefusalCode
from orchestrator.pools.curve import StepCurve
from orchestrator.pools.names import Name
from orchestrator.pools.tickets import Tickets

Command = TypeVar("Command")
Command_contra = TypeVar("Command_contra", contravariant=True)
Event = TypeVar("Event")
Event_contra = TypeVar("Event_contra", contravariant=True)

_log = structlog.stdlib.get_logger(__name__)


class Line(Protocol[Command_contra]):
    """The way to a peer while its link is up."""

    def send(self, message: Command_contra) -> bool:
        """Queue a message without blocking; False if the link is over. Raises ForewordError if it cannot be encoded."""

    def round_trip_us(self) -> int | None:
        """Return the recent median round-trip time; None before it was measured."""

    def newest_round_trip_us(self) -> int | None:
        """Return the last round-trip time; None before there was one."""


class Member(Protocol[Event_contra]):
    """A session's place at a peer; called synchronously as events come, must not block."""

    def event(self, event: Event_contra, arrived_us: int) -> None:
        """Take an event of this session."""

    def fault(self, error: ForewordError) -> None:
        """Take note that an event of this session could not be read."""

    def down(self, reason: str) -> None:
        """Take note that the peer's link is over, and the session there with it."""


class Peer(Generic[Command, Event]):
    """Routes events to sessions by sid; sids are never used again, so that late events of old sessions find nobody."""

    def __init__(
        self, address: str, tickets: Tickets, count: Callable[[str], None], *, name: Name | None = None
    ) -> None:
        self.address = address
        self.name = name
        """The name that resolved to the address; None if the settings list the address itself."""
        self.listed = True
        """Whether the name still resolves to it; one that is up goes on until its link is down."""
        self.info: ServerInfo | None = None
        """What it said of itself when it was last reached."""
        self.instance = ""
        self.vocabulary_map = ""
        """Digest of a draft's map of ids, as it gave it when it was last reached."""
        self.last_error = "not reached yet"
        self.draining = False
        """Whether it said, on this link, that it is shutting down."""
        self.load = LoadReport(sessions=0)
        self.longest_step_us = 0
        self._curve = StepCurve()
        self._tickets = tickets
        self._count = count
        self._line: Line[Command] | None = None
        self._members: dict[int, Member[Event]] = {}
        self._last_sid = 0

    @property
    def up(self) -> bool:
        """Whether its link is up."""
        return self._line is not None

    @property
    def source(self) -> str:
        """What the settings say of it: its name, or else its address."""
        return self.address if self.name is None else str(self.name)

    @property
    def leaving(self) -> bool:
        """Whether it will be gone soon: it said so, or its name does not resolve to it any more."""
        return self.draining or not self.listed

    @property
    def busy(self) -> int:
        """How many sessions it has, others' included, and how many wait there."""
        return max(self.load.sessions, len(self._members)) + self.load.waiting

    def added_us(self, rows: int, added: int) -> float:
        """Return what the last `added` of so many rows take in a step, by what it measured of itself; else 0."""
        return self._curve.added_us(rows, added)

    def step_took(self, rows: int, step_us: int) -> None:
        """Take note of a step of so many rows: what it measured of itself when it started is corrected by that."""
        self._curve.took(rows, step_us)

    @property
    def round_trip_us(self) -> int | None:
        """Recent median round-trip time of its link."""
        return self._line.round_trip_us() if self._line is not None else None

    @property
    def newest_round_trip_us(self) -> int | None:
        """The last round-trip time: a median of many tells late that a network has changed."""
        return self._line.newest_round_trip_us() if self._line is not None else None

    def came_up(self, line: Line[Command], info: ServerInfo, instance: str) -> None:
        """Take note of a new link to it."""
        self._line, self.info, self.instance, self.last_error = line, info, instance, ""
        self.draining = False
        self.load = LoadReport(sessions=info.sessions)
        self._curve = StepCurve(info.cost_curve)

    def went_down(self, reason: str) -> None:
        """Take note that it cannot be reached: its sessions are gone."""
        self._line, self.last_error = None, reason
        members, self._members = self._members, {}
        for member in members.values():
            self._guarded(member, partial(member.down, reason), "down")

    def join(self, member: Member[Event]) -> int:
        """Return the sid of a new session."""
        self._last_sid += 1
        self._members[self._last_sid] = member
        return self._last_sid

    def leave(self, sid: int) -> None:
        """Forget a session; events of it are ignored from now on."""
        self._members.pop(sid, None)

    def send(self, command: Command) -> None:
        """Queue a command; lost if the link is over, which `down` tells. Raises ForewordError if it does not encode."""
        if self._line is not None:
            self._line.send(command)

    def received(self, entries: Sequence[tuple[int | None, Event | ForewordError]], arrived_us: int) -> None:
        """Take the events of one frame, in order."""
        for sid, event in entries:
            if sid is None:
                self._own_event(event)
                continue
            member = self._members.get(sid)
            if member is None:
                self._count("event_of_unknown_session")
            elif isinstance(event, ForewordError):
                self._count("unreadable_event")
                member.fault(event)
            else:
                self._bring(member, event, arrived_us)

    def _bring(self, member: Member[Event], event: Event, arrived_us: int) -> None:
        if isinstance(event, Refused | Lost):
            self.draining |= event.code in (RefusalCode.DRAINING, LossCode.DRAINING)
        self._guarded(member, partial(member.event, event, arrived_us), type(event).__name__)

    def _guarded(self, member: Member[Event], tell: Callable[[], None], kind: str) -> None:
        try:
            tell()
        except Exception as error:  # a defect costs this session, and not the link that all share
            _log.exception("event failed", peer=self.address, kind=kind)
            self._count("failed_event")
            member.fault(ProtocolFault(f"{kind}: this end failed with {type(error).__name__}"))

    def _own_event(self, event: Event | ForewordError) -> None:
        if isinstance(event, LoadReport):
            self.load = event
            self.longest_step_us = max(event.step_us, self.longest_step_us * 9 // 10)
        elif isinstance(event, LinkState):
            self._tell_link(event)
        else:
            self._count("unreadable_event")

    def _tell_link(self, state: LinkState) -> None:
        try:
            known = self._tickets.tell(state)
        except Exception:  # a defect costs one session its news of a link, and not the link that all share
            _log.exception("event failed", peer=self.address, kind="LinkState")
            self._count("failed_event")
            return
        if not known:
            self._count("old_link_state")

    def describe(self, *, trusted: bool, fault: str = "") -> PeerInfo:
        """Return what clients may know of it; `fault` is why it is not used although it is up."""
        return PeerInfo(
            address=self.address,
            up=self.up,
            info=self.info,
            round_trip_us=self.round_trip_us,
            trusted=trusted,
            last_error=fault or self._remark(),
        )

    def _remark(self) -> str:
        """Return why it will not be used for long, or why it cannot be used now."""
        if self.draining:
            return "shutting down"
        return "its name no longer resolves to it" if self.up and not self.listed else self.last_error


def preference(peer: Peer[Any, Any]) -> tuple[bool, int, int]:
    """Return what is compared to choose a peer, the smallest first: those that stay, the least busy, the nearest."""
    return peer.leaving, peer.busy, peer.round_trip_us or 0
