"""Codec of what clients get: the events of a generation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeVar

from foreword.errors import InvalidField, ProtocolFault
from foreword.protocol.generation import Delta, Event, Finish, RoundPart, Started, Timings
from foreword.protocol.messages import LogProbabilities
from foreword.protocol.words import NO_TOKEN, FinishReason, TokenSource
from foreword.v1 import generation_pb2
from foreword.wire.common import RULES, parsed, read_count, read_enum, read_finite, read_text
from foreword.wire.generation_choice import fill_choice, read_choice
from foreword.wire.generation_usage import fill_usage, read_usage
from foreword.wire.limits import Limits
from foreword.wire.packing import pack_f32, pack_u32, unpack_ids, unpack_log32, unpack_u32

_REASONS: Mapping[int, FinishReason] = {int(reason): reason for reason in FinishReason}
_SOURCES: Mapping[int, TokenSource] = {int(source): source for source in TokenSource}
_PARTS = 64
_T = TypeVar("_T")


def encode_event(value: Event) -> bytes:
    """Return `value` as the bytes of GenerateResponse; raises InvalidField for what does not fit its field."""
    m = generation_pb2.GenerateResponse()
    match value:
        case Started():
            m.started.request_id, m.started.model = value.request_id, value.model
            m.started.prompt_ids = pack_u32("started.prompt_ids", value.prompt_ids)
            m.started.prompt_tokens = value.prompt_tokens
            if value.prompt_logprobs is not None:
                m.started.prompt_logprobs.SetInParent()
                _fill_logprobs(m.started.prompt_logprobs, value.prompt_logprobs)
        case Delta():
            _fill_delta(m.delta, value)
        case Finish():
            _fill_finish(m.finish, value)
    return m.SerializeToString()


def decode_event(data: bytes, limits: Limits) -> Event:
    """Return the event in `data`; raises InvalidField or ProtocolFault."""
    m = parsed("event", generation_pb2.GenerateResponse, data)
    which = m.WhichOneof("event")
    if which == "delta":
        return _read_delta(m.delta, limits)
    if which == "finish":
        return _read_finish(m.finish, limits)
    if which == "started":
        return _read_started(m.started, limits)
    raise ProtocolFault("event: got none that is known, wanted one of started, delta, finish")


def _read_started(m: generation_pb2.Started, limits: Limits) -> Started:
    scored = min(max(0, m.prompt_tokens - 1), limits.tokens)
    return Started(
        request_id=read_text("started.request_id", m.request_id, limits.text),
        model=read_text("started.model", m.model, limits.text),
        prompt_tokens=m.prompt_tokens,
        prompt_ids=unpack_ids("started.prompt_ids", m.prompt_ids, most=limits.tokens, vocabulary=limits.vocabulary),
        prompt_logprobs=_read_logprobs(m.prompt_logprobs, scored, limits) if m.HasField("prompt_logprobs") else None,
    )


def _fill_delta(m: generation_pb2.Delta, value: Delta) -> None:
    m.choice, m.text = value.choice, value.text
    m.ids, m.sources = pack_u32("delta.ids", value.ids), bytes(value.sources)
    m.text_ends = pack_u32("delta.text_ends", value.text_ends)
    if value.logprobs is not None:
        m.logprobs.SetInParent()
        _fill_logprobs(m.logprobs, value.logprobs)


def _read_delta(m: generation_pb2.Delta, limits: Limits) -> Delta:
    ids = unpack_ids("delta.ids", m.ids, most=limits.tokens, vocabulary=limits.vocabulary)
    ends = unpack_u32("delta.text_ends", m.text_ends, most=limits.tokens)
    return Delta(
        choice=m.choice,
        text=m.text,
        ids=ids,
        sources=_one_each("delta.sources", ids, tuple(read_enum("delta.sources", _SOURCES, s) for s in m.sources)),
        logprobs=_read_logprobs(m.logprobs, len(ids), limits) if m.HasField("logprobs") else None,
        text_ends=_one_each("delta.text_ends", ids, ends),
    )


def _one_each(field: str, ids: tuple[int, ...], values: tuple[_T, ...]) -> tuple[_T, ...]:
    if values and len(values) != len(ids):
        raise InvalidField(field, len(values), f"{len(ids)} values, one for each of ids")
    return values


def _fill_logprobs(m: generation_pb2.DeltaLogProbabilities, value: LogProbabilities) -> None:
    """Write `value` into `m`; rows of alternatives that are shorter than the longest are filled up with NO_TOKEN."""
    m.chosen = pack_f32("logprobs.chosen", value.chosen)
    if value.top:
        m.top_count = width = max(map(len, value.top))
        pairs = [pair for row in value.top for pair in (*row, *[(NO_TOKEN, -math.inf)] * (width - len(row)))]
        m.top_ids = pack_u32("logprobs.top_ids", [token for token, _ in pairs])
        m.top_values = pack_f32("logprobs.top_values", [logprob for _, logprob in pairs])


def _read_logprobs(m: generation_pb2.DeltaLogProbabilities, count: int, limits: Limits) -> LogProbabilities:
    chosen = unpack_log32("logprobs.chosen", m.chosen, most=count)
    if len(chosen) != count:
        raise InvalidField("logprobs.chosen", len(chosen), f"{count} values, one for each of ids")
    width = read_count("logprobs.top_count", m.top_count, most=limits.top_logprobs)
    ids = unpack_u32("logprobs.top_ids", m.top_ids, most=width * count)
    values = unpack_log32("logprobs.top_values", m.top_values, most=width * count)
    if not len(ids) == len(values) == width * count:
        raise InvalidField("logprobs.top_ids", len(ids), f"{width * count} ids and as many values")
    if not width:
        return LogProbabilities(chosen)
    pairs = tuple(zip(ids, values, strict=True))
    rows = (pairs[start : start + width] for start in range(0, len(pairs), width))
    return LogProbabilities(chosen, tuple(tuple(pair for pair in row if pair[0] != NO_TOKEN) for row in rows))


def _fill_finish(m: generation_pb2.Finish, value: Finish) -> None:
    m.choice, m.reason, m.seed = value.choice, int(value.reason), value.seed  # type: ignore[assignment]
    if value.stop is not None:
        m.stop = value.stop
    if value.rule is not None:
        m.rule = int(value.rule)  # type: ignore[assignment]
    fill_usage(m.usage, value.usage)
    m.timings.queue_us, m.timings.first_token_us = value.timings.queue_us, value.timings.first_token_us
    m.timings.total_us = value.timings.total_us
    for part in value.timings.parts:
        m.timings.parts.add(name=part.name, p50_us=part.p50_us, sum_us=part.sum_us)
    m.timings.results_by_gamma = pack_u32("timings.results_by_gamma", value.timings.results_by_gamma)
    if value.timings.gamma is not None:
        fill_choice(m.timings.gamma, value.timings.gamma)


def _read_finish(m: generation_pb2.Finish, limits: Limits) -> Finish:
    return Finish(
        choice=m.choice,
        reason=read_enum("finish.reason", _REASONS, m.reason),
        stop=read_text("finish.stop", m.stop, limits.text) if m.HasField("stop") else None,
        usage=read_usage(m.usage, limits),
        timings=_read_timings(m.timings, limits),
        rule=read_enum("finish.rule", RULES, m.rule) if m.rule else None,
        seed=m.seed,
    )


def _read_timings(m: generation_pb2.Timings, limits: Limits) -> Timings:
    read_count("timings.parts", len(m.parts), most=_PARTS)
    parts = tuple(
        RoundPart(
            name=read_text("timings.parts.name", part.name, limits.text),
            p50_us=read_finite("timings.parts.p50_us", part.p50_us),
            sum_us=read_finite("timings.parts.sum_us", part.sum_us),
        )
        for part in m.parts
    )
    return Timings(
        queue_us=m.queue_us,
        first_token_us=m.first_token_us,
        total_us=m.total_us,
        parts=parts,
        gamma=read_choice(m.gamma, limits) if m.HasField("gamma") else None,
        results_by_gamma=unpack_u32("timings.results_by_gamma", m.results_by_gamma, most=limits.gamma + 1),
    )
