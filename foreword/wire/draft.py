"""Codec of what orchestrators and drafts exchange."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from foreword.errors import ForewordError, InvalidField, ProtocolFault
from foreword.protocol.messages import (
    Advance,
    DraftClose,
    DraftCommand,
    DraftEvent,
    DraftKeys,
    DraftOpen,
    DraftOpened,
    Follow,
    LinkState,
    LoadReport,
    Lost,
    Refused,
    TargetAddress,
)
from foreword.v1 import draft_pb2
from foreword.wire.common import (
    RULES,
    Attributed,
    fill_link,
    fill_load,
    fill_lost,
    fill_refused,
    fill_trace,
    read_count,
    read_enum,
    read_key,
    read_link,
    read_load,
    read_lost,
    read_refused,
    read_salt,
    read_share,
    read_text,
    read_trace,
)
from foreword.wire.law import fill_law, read_law
from foreword.wire.limits import Limits
from foreword.wire.packing import pack_u32, unpack_ids
from foreword.wire.prompts import FirstChunk, NextChunk, chunks


def command_messages(value: DraftCommand, limits: Limits) -> list[draft_pb2.DraftCommand]:
    """Return `value` as messages: one, unless it is an Open whose tokens need chunks. Raises InvalidField."""
    m = draft_pb2.DraftCommand()
    match value:
        case Advance():
            _fill_advance(m.advance, value)
        case DraftOpen():
            first, *others = chunks(value.tokens, limits.chunk)
            _fill_open(m.open, value, first)
            return [m, *(_tokens_message(value.sid, chunk) for chunk in others)]
        case DraftClose():
            m.close.SetInParent()
            m.close.sid = value.sid
    return [m]


def read_command(
    m: draft_pb2.DraftCommand, limits: Limits
) -> Attributed[DraftCommand | FirstChunk[DraftOpen] | NextChunk]:
    """Return the command in `m` or what is wrong with it, beside its session; raises nothing."""
    which = m.WhichOneof("command")
    if which is None:
        return None, ProtocolFault(f"command: got none that is known, wanted one of {', '.join(_COMMANDS)}")
    inner = getattr(m, which)
    sid: int = inner.sid
    try:
        return sid, _COMMANDS[which](inner, limits)
    except ForewordError as error:
        return sid, error


def event_message(value: DraftEvent, limits: Limits) -> draft_pb2.DraftEvent:
    """Return `value` as a message; raises InvalidField for a number that does not fit its field."""
    m = draft_pb2.DraftEvent()
    match value:
        case DraftOpened():
            m.opened.sid, m.opened.longest_length = value.sid, value.longest_length
        case Follow():
            m.follow.sid, m.follow.base = value.sid, value.base
            m.follow.compared, m.follow.agreed = value.compared, value.agreed
        case Refused():
            fill_refused(m.refused, value, limits)
        case Lost():
            fill_lost(m.lost, value, limits)
        case LinkState():
            fill_link(m.link, value)
        case LoadReport():
            m.load.SetInParent()
            fill_load(m.load, value)
    return m


def read_event(m: draft_pb2.DraftEvent, limits: Limits) -> Attributed[DraftEvent]:
    """Return the event in `m` or what is wrong with it, beside its session if it has one; raises nothing."""
    which = m.WhichOneof("event")
    if which is None:
        return None, ProtocolFault(f"event: got none that is known, wanted one of {', '.join(_EVENTS)}")
    inner = getattr(m, which)
    sid: int | None = None if which in ("link", "load") else inner.sid
    try:
        return sid, _EVENTS[which](inner, limits)
    except ForewordError as error:
        return sid, error


def _fill_advance(m: draft_pb2.Advance, value: Advance) -> None:
    m.sid, m.round, m.base, m.digest = value.sid, value.round, value.base, value.digest
    m.tokens = pack_u32("advance.tokens", value.tokens)
    m.rule = int(value.rule)  # type: ignore[assignment]
    m.gamma, m.alternatives = value.gamma, value.alternatives
    m.stop_threshold, m.lookup_threshold = value.stop_threshold, value.lookup_threshold
    if value.send_by_us is not None:
        m.send_by_us = value.send_by_us
    if value.target is not None:
        new = m.new_target
        new.address, new.instance, new.ticket = value.target.address, value.target.instance, value.target.ticket


def _read_advance(m: draft_pb2.Advance, limits: Limits) -> Advance:
    base = read_count("advance.base", m.base, most=limits.tokens)
    send_by = read_count("advance.send_by_us", m.send_by_us, most=limits.wait_us) if m.HasField("send_by_us") else None
    return Advance(
        sid=m.sid,
        round=m.round,
        base=base,
        tokens=unpack_ids("advance.tokens", m.tokens, most=base, vocabulary=limits.vocabulary),
        digest=m.digest,
        rule=read_enum("advance.rule", RULES, m.rule),
        gamma=read_count("advance.gamma", m.gamma, most=limits.gamma),
        stop_threshold=read_share("advance.stop_threshold", m.stop_threshold),
        lookup_threshold=read_share("advance.lookup_threshold", m.lookup_threshold),
        send_by_us=send_by,
        alternatives=read_count("advance.alternatives", m.alternatives, most=limits.gamma),
        target=_read_target(m.new_target, limits) if m.HasField("new_target") else None,
    )


def _read_target(m: draft_pb2.NewTarget, limits: Limits) -> TargetAddress:
    return TargetAddress(
        address=read_text("advance.new_target.address", m.address, limits.text),
        instance=read_text("advance.new_target.instance", m.instance, limits.text),
        ticket=read_key("advance.new_target.ticket", m.ticket),
    )


def _fill_open(m: draft_pb2.DraftOpen, value: DraftOpen, first: tuple[int, ...]) -> None:
    m.sid, m.prompt_len, m.gamma_max = value.sid, value.prompt_len, value.gamma_max
    m.tokens, m.token_count = pack_u32("open.tokens", first), len(value.tokens)
    fill_law(m.law, value.law)
    m.keys.draft = value.keys.draft
    if value.keys.match is not None:
        m.keys.match = value.keys.match
    m.target_address, m.target_instance = value.target.address, value.target.instance
    m.ticket = value.target.ticket
    m.vocabulary_map_digest, m.wide_ids = value.vocabulary_map_digest, value.wide_ids
    m.cache_salt = value.cache_salt
    fill_trace(m.trace, value.trace)


def _tokens_message(sid: int, chunk: tuple[int, ...]) -> draft_pb2.DraftCommand:
    tokens = draft_pb2.DraftOpenTokens(sid=sid, tokens=pack_u32("open.tokens", chunk))
    return draft_pb2.DraftCommand(tokens=tokens)


def _read_open(m: draft_pb2.DraftOpen, limits: Limits) -> FirstChunk[DraftOpen]:
    count = read_count("open.token_count", m.token_count, least=1, most=limits.tokens)
    if not m.target_address:
        raise InvalidField("open.target_address", m.target_address, "where the target takes blocks")
    keys = DraftKeys(
        draft=read_key("open.keys.draft", m.keys.draft),
        match=read_key("open.keys.match", m.keys.match) if m.keys.HasField("match") else None,
    )
    value = DraftOpen(
        sid=m.sid,
        tokens=unpack_ids("open.tokens", m.tokens, most=min(limits.chunk, count), vocabulary=limits.vocabulary),
        prompt_len=read_count("open.prompt_len", m.prompt_len, least=1, most=count),
        law=read_law(m.law, limits),
        keys=keys,
        target=TargetAddress(
            address=read_text("open.target_address", m.target_address, limits.text),
            instance=read_text("open.target_instance", m.target_instance, limits.text),
            ticket=read_key("open.ticket", m.ticket),
        ),
        gamma_max=read_count("open.gamma_max", m.gamma_max, most=limits.gamma),
        vocabulary_map_digest=read_text("open.vocabulary_map_digest", m.vocabulary_map_digest, limits.text),
        wide_ids=m.wide_ids,
        trace=read_trace(m.trace, limits),
        cache_salt=read_salt("open.cache_salt", m.cache_salt),
    )
    return FirstChunk(value, count)


def _read_tokens(m: draft_pb2.DraftOpenTokens, limits: Limits) -> NextChunk:
    return NextChunk(unpack_ids("open.tokens", m.tokens, most=limits.chunk, vocabulary=limits.vocabulary))


def _read_close(m: draft_pb2.DraftClose, _: Limits) -> DraftClose:
    return DraftClose(m.sid)


def _read_opened(m: draft_pb2.DraftOpened, _: Limits) -> DraftOpened:
    return DraftOpened(m.sid, m.longest_length)


def _read_follow(m: draft_pb2.Follow, limits: Limits) -> Follow:
    compared = read_count("follow.compared", m.compared, most=limits.tokens)
    agreed = read_count("follow.agreed", m.agreed, most=compared)
    return Follow(m.sid, read_count("follow.base", m.base, most=limits.tokens), compared=compared, agreed=agreed)


_COMMANDS: Mapping[str, Callable[[Any, Limits], Any]] = {
    "open": _read_open,
    "tokens": _read_tokens,
    "advance": _read_advance,
    "close": _read_close,
}
_EVENTS: Mapping[str, Callable[[Any, Limits], Any]] = {
    "opened": _read_opened,
    "refused": read_refused,
    "follow": _read_follow,
    "lost": read_lost,
    "link": read_link,
    "load": lambda m, _: read_load(m),
}
