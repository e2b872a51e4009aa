"""Codec of what an orchestrator sends to a target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from foreword.errors import ForewordError, InvalidField, ProtocolFault
from foreword.protocol.messages import (
    BlockOrder,
    Commit,
    LocalOrder,
    Order,
    PlainOrder,
    Recall,
    TargetClose,
    TargetCommand,
    TargetKeys,
    TargetOpen,
    TargetTicket,
)
from foreword.v1 import target_pb2
from foreword.wire.common import (
    DRAFTERS,
    RULES,
    Attributed,
    fill_trace,
    read_count,
    read_enum,
    read_key,
    read_salt,
    read_trace,
)
from foreword.wire.law import fill_law, read_law
from foreword.wire.limits import Limits
from foreword.wire.packing import pack_u32, unpack_ids
from foreword.wire.prompts import FirstChunk, NextChunk, chunks


def command_messages(value: TargetCommand, limits: Limits) -> list[target_pb2.TargetCommand]:
    """Return `value` as messages: one, unless it is an Open whose tokens need chunks. Raises InvalidField."""
    m = target_pb2.TargetCommand()
    match value:
        case Commit():
            fill_commit(m.commit, value)
        case TargetOpen():
            first, *others = chunks(value.tokens, limits.chunk)
            _fill_open(m.open, value, first)
            return [m, *(_tokens_message(value.sid, chunk) for chunk in others)]
        case TargetTicket():
            m.ticket.sid, m.ticket.ticket = value.sid, value.ticket
        case Recall():
            m.recall.sid, m.recall.round = value.sid, value.round
        case TargetClose():
            m.close.sid, m.close.final_length = value.sid, value.final_length
            m.close.tokens = pack_u32("close.tokens", value.tokens)
    return [m]


def read_command(
    m: target_pb2.TargetCommand, limits: Limits
) -> Attributed[TargetCommand | FirstChunk[TargetOpen] | NextChunk]:
    """Return the command in `m` or what is wrong with it, beside its session; raises nothing."""
    which = m.WhichOneof("command")
    if which is None:
        return None, ProtocolFault(f"command: got none that is known, wanted one of {', '.join(_READERS)}")
    inner = getattr(m, which)
    sid: int = inner.sid
    try:
        return sid, _READERS[which](inner, limits)
    except ForewordError as error:
        return sid, error


def fill_commit(m: target_pb2.Commit, value: Commit) -> None:
    """Write `value` into `m`; raises InvalidField for tokens that are no u32."""
    m.sid, m.round, m.base, m.digest = value.sid, value.round, value.base, value.digest
    m.tokens = pack_u32("commit.tokens", value.tokens)
    m.rule = int(value.rule)  # type: ignore[assignment]
    match value.order:
        case BlockOrder(wait_us, gamma, ticket):
            m.block.wait_us, m.block.gamma, m.block.ticket = wait_us, gamma, ticket
        case PlainOrder(limit):
            m.plain.limit = limit
        case LocalOrder(drafter, gamma, limit):
            m.local.drafter, m.local.gamma, m.local.limit = int(drafter), gamma, limit  # type: ignore[assignment]


def read_commit(m: target_pb2.Commit, limits: Limits) -> Commit:
    """Return the commit in `m`; raises InvalidField or ProtocolFault."""
    base = read_count("commit.base", m.base, most=limits.tokens)
    tokens = unpack_ids("commit.tokens", m.tokens, most=base, vocabulary=limits.vocabulary)
    rule = read_enum("commit.rule", RULES, m.rule)
    return Commit(m.sid, m.round, base, tokens=tokens, digest=m.digest, rule=rule, order=_read_order(m, limits))


def _read_order(m: target_pb2.Commit, limits: Limits) -> Order:
    which = m.WhichOneof("order")
    if which == "block":
        return BlockOrder(
            wait_us=read_count("commit.block.wait_us", m.block.wait_us, most=limits.wait_us),
            gamma=read_count("commit.block.gamma", m.block.gamma, least=1, most=limits.gamma),
            ticket=read_key("commit.block.ticket", m.block.ticket),
        )
    if which == "plain":
        return PlainOrder(limit=read_count("commit.plain.limit", m.plain.limit, least=1, most=limits.tokens))
    if which == "local":
        return LocalOrder(
            drafter=read_enum("commit.local.drafter", DRAFTERS, m.local.drafter),
            gamma=read_count("commit.local.gamma", m.local.gamma, least=1, most=limits.gamma),
            limit=read_count("commit.local.limit", m.local.limit, least=1, most=limits.tokens),
        )
    raise ProtocolFault("commit.order: got none that is known, wanted one of block, plain, local")


def _fill_open(m: target_pb2.TargetOpen, value: TargetOpen, first: tuple[int, ...]) -> None:
    m.sid, m.prompt_len, m.max_output = value.sid, value.prompt_len, value.max_output
    m.tokens, m.token_count = pack_u32("open.tokens", first), len(value.tokens)
    fill_law(m.law, value.law)
    m.keys.match, m.keys.emit, m.keys.coin = value.keys.match, value.keys.emit, value.keys.coin
    if value.top_logprobs is not None:
        m.top_logprobs = value.top_logprobs
    if value.prompt_logprobs is not None:
        m.prompt_logprobs = value.prompt_logprobs
    m.cache_salt = value.cache_salt
    fill_trace(m.trace, value.trace)
    if value.ticket is not None:
        m.ticket = value.ticket
    if value.first is not None:
        fill_commit(m.first, value.first)


def _tokens_message(sid: int, chunk: tuple[int, ...]) -> target_pb2.TargetCommand:
    tokens = target_pb2.OpenTokens(sid=sid, tokens=pack_u32("open.tokens", chunk))
    return target_pb2.TargetCommand(tokens=tokens)


def _read_open(m: target_pb2.TargetOpen, limits: Limits) -> FirstChunk[TargetOpen]:
    count = read_count("open.token_count", m.token_count, least=1, most=limits.tokens)
    if m.HasField("first") and m.first.sid != m.sid:
        raise InvalidField("open.first.sid", m.first.sid, f"{m.sid}, the session that is opened")
    value = TargetOpen(
        sid=m.sid,
        tokens=unpack_ids("open.tokens", m.tokens, most=min(limits.chunk, count), vocabulary=limits.vocabulary),
        prompt_len=read_count("open.prompt_len", m.prompt_len, least=1, most=count),
        law=read_law(m.law, limits),
        keys=TargetKeys(
            match=read_key("open.keys.match", m.keys.match),
            emit=read_key("open.keys.emit", m.keys.emit),
            coin=read_key("open.keys.coin", m.keys.coin),
        ),
        max_output=read_count("open.max_output", m.max_output, most=limits.tokens),
        top_logprobs=_read_top("top_logprobs", m, limits),
        prompt_logprobs=_read_top("prompt_logprobs", m, limits),
        cache_salt=read_salt("open.cache_salt", m.cache_salt),
        trace=read_trace(m.trace, limits),
        ticket=read_key("open.ticket", m.ticket) if m.HasField("ticket") else None,
        first=read_commit(m.first, limits) if m.HasField("first") else None,
    )
    return FirstChunk(value, count)


def _read_top(field: str, m: target_pb2.TargetOpen, limits: Limits) -> int | None:
    return read_count(f"open.{field}", getattr(m, field), most=limits.top_logprobs) if m.HasField(field) else None


def _read_tokens(m: target_pb2.OpenTokens, limits: Limits) -> NextChunk:
    return NextChunk(unpack_ids("open.tokens", m.tokens, most=limits.chunk, vocabulary=limits.vocabulary))


def _read_ticket(m: target_pb2.TargetTicket, _: Limits) -> TargetTicket:
    return TargetTicket(m.sid, read_key("ticket.ticket", m.ticket))


def _read_recall(m: target_pb2.Recall, _: Limits) -> Recall:
    return Recall(m.sid, m.round)


def _read_close(m: target_pb2.TargetClose, limits: Limits) -> TargetClose:
    length = read_count("close.final_length", m.final_length, most=limits.tokens)
    return TargetClose(m.sid, length, unpack_ids("close.tokens", m.tokens, most=length, vocabulary=limits.vocabulary))


_READERS: Mapping[str, Callable[[Any, Limits], Any]] = {
    "open": _read_open,
    "tokens": _read_tokens,
    "ticket": _read_ticket,
    "commit": read_commit,
    "recall": _read_recall,
    "close": _read_close,
}
