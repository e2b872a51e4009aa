"""Codec of what target and draft services share: enumerations, refusals, losses, link states, load, stream headers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import IntEnum
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from foreword.errors import ForewordError, InvalidField, ProtocolFault
from foreword.protocol.info import Hello, Liveness
from foreword.protocol.messages import LinkState, LoadReport, Lost, Refused, Trace
from foreword.protocol.words import Drafter, LossCode, RefusalCode, Rule
from foreword.v1 import common_pb2
from foreword.wire.limits import Limits

T = TypeVar("T")
E = TypeVar("E", bound=IntEnum)
M = TypeVar("M", bound=Message)

Attributed = tuple[int | None, T | ForewordError]
"""A decoded message, or what was wrong with it, beside the session it belongs to; None where that cannot be told."""

RULES: Mapping[int, Rule] = {int(rule): rule for rule in Rule}
DRAFTERS: Mapping[int, Drafter] = {int(drafter): drafter for drafter in Drafter}
_REFUSALS: Mapping[int, RefusalCode] = {int(code): code for code in RefusalCode}
_LOSSES: Mapping[int, LossCode] = {int(code): code for code in LossCode}

KEY_BYTES = 16
"""Length of tickets and of random keys."""
CACHE_SALT_BYTES = 64
"""Longest salt of a prefix cache."""


def parsed(field: str, kind: type[M], data: bytes) -> M:
    """Return the message of this kind in `data`; raises ProtocolFault where it is none."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise ProtocolFault(f"{field}: got {len(data)} bytes that are no {kind.DESCRIPTOR.name}") from error


def read_enum(field: str, members: Mapping[int, E], value: int) -> E:
    """Return the member with this number; raises InvalidField for 0 and for numbers that are not known."""
    member = members.get(value)
    if member is None:
        known = ", ".join(f"{m.name.lower()} ({m.value})" for m in members.values())
        raise InvalidField(field, int(value), f"one of {known}")
    return member


def read_key(field: str, value: bytes) -> bytes:
    """Return a ticket or key; raises InvalidField unless it has 16 bytes."""
    if len(value) != KEY_BYTES:
        raise InvalidField(field, len(value), f"{KEY_BYTES} bytes")
    return value


def read_salt(field: str, value: bytes) -> bytes:
    """Return the salt of a prefix cache; raises InvalidField if it is too long."""
    if len(value) > CACHE_SALT_BYTES:
        raise InvalidField(field, len(value), f"at most {CACHE_SALT_BYTES} bytes")
    return value


def fit_text(field: str, text: str) -> str:
    """Return `text` if it can be sent; raises InvalidField for one with half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidField(field, text, "text that UTF-8 can carry") from error
    return text


def read_text(field: str, value: str, most: int) -> str:
    """Return a text; raises InvalidField if it is longer than `most` characters."""
    if len(value) > most:
        raise InvalidField(field, len(value), f"at most {most} characters")
    return value


def read_count(field: str, value: int, *, least: int = 0, most: int) -> int:
    """Return a whole number; raises InvalidField outside `least` to `most`."""
    if not least <= value <= most:
        raise InvalidField(field, value, f"a whole number from {least} to {most}")
    return value


def fit_count(field: str, value: int, *, least: int = 0) -> int:
    """Return a whole number that a field of 32 bits carries; raises InvalidField.

    How large it may be is for the receiver to say, whose bound is smaller: a message that named 2**32 - 1 would lie.
    """
    if value < least:
        raise InvalidField(field, value, f"a whole number from {least}")
    if value >= 1 << 32:
        raise InvalidField(field, value, f"a whole number from {least} that fits 32 bits")
    return value


def read_share(field: str, value: float) -> float:
    """Return a number from 0 to 1; raises InvalidField for others and for NaN."""
    if not 0.0 <= value <= 1.0:
        raise InvalidField(field, value, "a number from 0 to 1")
    return value


def shorten(message: str, most: int) -> str:
    """Cut a message for people to what a peer accepts; nothing else is ever cut."""
    return message if len(message) <= most else message[: most - 1] + "…"


def fill_refused(m: common_pb2.Refused, value: Refused, limits: Limits) -> None:
    """Write `value` into `m`."""
    m.sid, m.code, m.message = value.sid, int(value.code), shorten(value.message, limits.text)  # type: ignore[assignment]
    if value.retry_after_ms is not None:
        m.retry_after_ms = value.retry_after_ms


def read_refused(m: common_pb2.Refused, limits: Limits) -> Refused:
    """Return the refusal in `m`; raises InvalidField."""
    return Refused(
        sid=m.sid,
        code=read_enum("refused.code", _REFUSALS, m.code),
        message=read_text("refused.message", m.message, limits.text),
        retry_after_ms=m.retry_after_ms if m.HasField("retry_after_ms") else None,
    )


def fill_lost(m: common_pb2.Lost, value: Lost, limits: Limits) -> None:
    """Write `value` into `m`."""
    m.sid, m.code, m.message = value.sid, int(value.code), shorten(value.message, limits.text)  # type: ignore[assignment]


def read_lost(m: common_pb2.Lost, limits: Limits) -> Lost:
    """Return the loss in `m`; raises InvalidField."""
    code = read_enum("lost.code", _LOSSES, m.code)
    return Lost(sid=m.sid, code=code, message=read_text("lost.message", m.message, limits.text))


def fill_link(m: common_pb2.LinkState, value: LinkState) -> None:
    """Write `value` into `m`."""
    m.ticket, m.target_instance, m.up = value.ticket, value.target_instance, value.up


def read_link(m: common_pb2.LinkState, limits: Limits) -> LinkState:
    """Return the link state in `m`; raises InvalidField."""
    instance = read_text("link.target_instance", m.target_instance, limits.text)
    return LinkState(ticket=read_key("link.ticket", m.ticket), target_instance=instance, up=m.up)


def fill_load(m: common_pb2.LoadReport, value: LoadReport) -> None:
    """Write `value` into `m`."""
    m.sessions, m.waiting, m.step_us, m.price = value.sessions, value.waiting, value.step_us, value.price
    if value.free_tokens is not None:
        m.free_tokens = value.free_tokens


def read_load(m: common_pb2.LoadReport) -> LoadReport:
    """Return the load report in `m`; raises InvalidField."""
    return LoadReport(
        sessions=m.sessions,
        waiting=m.waiting,
        free_tokens=m.free_tokens if m.HasField("free_tokens") else None,
        step_us=m.step_us,
        price=read_share("load.price", m.price),
    )


def fill_trace(m: common_pb2.TraceContext, value: Trace) -> None:
    """Write `value` into `m`."""
    m.traceparent, m.tracestate = value.parent, value.state


def read_trace(m: common_pb2.TraceContext, limits: Limits) -> Trace:
    """Return the trace context in `m`; raises InvalidField."""
    parent = read_text("trace.traceparent", m.traceparent, limits.text)
    return Trace(parent=parent, state=read_text("trace.tracestate", m.tracestate, limits.text))


def hello_message(value: Hello) -> common_pb2.Hello:
    """Return `value` as a message."""
    return common_pb2.Hello(
        protocol_min=value.protocol_min,
        protocol_max=value.protocol_max,
        instance=value.instance,
        liveness_ms=value.liveness_ms,
    )


def read_hello(m: common_pb2.Hello, limits: Limits) -> Hello:
    """Return the stream header in `m`; raises InvalidField."""
    return Hello(
        protocol_min=m.protocol_min,
        protocol_max=m.protocol_max,
        instance=read_text("hello.instance", m.instance, limits.text),
        liveness_ms=read_count("hello.liveness_ms", m.liveness_ms, least=1, most=600_000),
    )


def liveness_message(value: Liveness) -> common_pb2.Liveness:
    """Return `value` as a message."""
    m = common_pb2.Liveness(sequence=value.sequence, echo_held_us=value.echo_held_us)
    if value.echo_sequence is not None:
        m.echo_sequence = value.echo_sequence
    return m


def read_liveness(m: common_pb2.Liveness) -> Liveness:
    """Return the liveness frame in `m`."""
    echo = m.echo_sequence if m.HasField("echo_sequence") else None
    return Liveness(sequence=m.sequence, echo_sequence=echo, echo_held_us=m.echo_held_us)


def read_finite(field: str, value: float, *, least: float = -math.inf) -> float:
    """Return a finite number that is at least `least`; raises InvalidField otherwise."""
    if not (math.isfinite(value) and value >= least):
        wanted = "a finite number" if least == -math.inf else f"a finite number from {least:g}"
        raise InvalidField(field, value, wanted)
    return value
