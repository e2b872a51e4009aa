"""Codec of what a target sends to an orchestrator: answers to Opens, results with their evidence, losses, reports."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from foreword.errors import ForewordError, InvalidField, ProtocolFault
from foreword.protocol.messages import (
    LinkState,
    LoadReport,
    LogProbabilities,
    Lost,
    Refused,
    Result,
    RoundTiming,
    TargetEvent,
    TargetOpened,
    TargetScored,
)
from foreword.protocol.words import NO_TOKEN, ResultKind
from foreword.v1 import target_pb2
from foreword.wire.common import (
    DRAFTERS,
    Attributed,
    fill_link,
    fill_load,
    fill_lost,
    fill_refused,
    read_count,
    read_enum,
    read_link,
    read_load,
    read_lost,
    read_refused,
)
from foreword.wire.limits import Limits
from foreword.wire.packing import (
    pack_f32,
    pack_f64,
    pack_u16,
    pack_u32,
    unpack_f64,
    unpack_ids,
    unpack_log32,
    unpack_u16,
    unpack_u32,
)

_KINDS: Mapping[int, ResultKind] = {int(kind): kind for kind in ResultKind}


def event_message(value: TargetEvent, limits: Limits) -> target_pb2.TargetEvent:
    """Return `value` as a message; raises InvalidField for a number that does not fit its field."""
    m = target_pb2.TargetEvent()
    match value:
        case Result():
            _fill_result(m.result, value)
        case TargetOpened():
            m.opened.sid, m.opened.cached_tokens = value.sid, value.cached_tokens
            m.opened.longest_length, m.opened.prefill_us = value.longest_length, value.prefill_us
        case TargetScored():
            m.scored.sid, m.scored.position = value.sid, value.position
            m.scored.logprobs.SetInParent()
            _fill_logprobs(m.scored.logprobs, value.logprobs)
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


def read_event(m: target_pb2.TargetEvent, limits: Limits) -> Attributed[TargetEvent]:
    """Return the event in `m` or what is wrong with it, beside its session if it has one; raises nothing."""
    which = m.WhichOneof("event")
    if which is None:
        return None, ProtocolFault(f"event: got none that is known, wanted one of {', '.join(_READERS)}")
    inner = getattr(m, which)
    sid: int | None = None if which in ("link", "load") else inner.sid
    try:
        return sid, _READERS[which](inner, limits)
    except ForewordError as error:
        return sid, error


def read_parents(field: str, data: bytes, count: int) -> tuple[int, ...]:
    """Return the parents of `count` candidates: index plus one of a candidate that stands before, 0 for the root."""
    parents = unpack_u16(field, data, most=count)
    if len(parents) != count:
        raise InvalidField(field, len(parents), f"{count} values, one for each candidate")
    for index, parent in enumerate(parents):
        if parent > index:
            raise InvalidField(field, parent, f"at most {index} for candidate {index}, whose parent stands before it")
    return parents


def _fill_result(m: target_pb2.Result, value: Result) -> None:
    m.sid, m.round, m.base, m.final = value.sid, value.round, value.base, value.final
    m.kind = int(value.kind)  # type: ignore[assignment]
    m.emit = pack_u32("result.emit", [NO_TOKEN if token is None else token for token in value.emit])
    if value.ids:
        m.ids = pack_u32("result.ids", value.ids)
        m.acceptance = pack_f64("result.acceptance", value.acceptance)
    if value.parents is not None:
        m.parents = pack_u16("result.parents", value.parents)
    if value.drafter is not None:
        m.drafter = int(value.drafter)  # type: ignore[assignment]
    if value.ratios is not None:
        m.ratios = pack_f64("result.ratios", value.ratios)
    if value.candidate_logprobs is not None:
        m.candidate_logprobs.SetInParent()
        _fill_logprobs(m.candidate_logprobs, value.candidate_logprobs)
    if value.emit_logprobs is not None:
        m.emit_logprobs.SetInParent()
        _fill_logprobs(m.emit_logprobs, value.emit_logprobs)
    _fill_timing(m.timing, value.timing)


def _read_result(m: target_pb2.Result, limits: Limits) -> Result:
    ids = unpack_ids("result.ids", m.ids, most=limits.gamma, vocabulary=limits.vocabulary)
    count = len(ids)
    kind = read_enum("result.kind", _KINDS, m.kind)
    if kind is ResultKind.PLAIN and count:
        raise InvalidField("result.ids", count, "no candidates in a plain step")
    return Result(
        sid=m.sid,
        round=m.round,
        base=read_count("result.base", m.base, most=limits.tokens),
        final=m.final,
        kind=kind,
        emit=_read_emit(m.emit, count, limits),
        ids=ids,
        acceptance=_read_acceptance(m.acceptance, count),
        parents=read_parents("result.parents", m.parents, count) if m.HasField("parents") else None,
        drafter=read_enum("result.drafter", DRAFTERS, m.drafter) if m.drafter else None,
        ratios=_read_ratios(m.ratios, count) if m.HasField("ratios") else None,
        candidate_logprobs=_read_optional(m, "candidate_logprobs", count, limits),
        emit_logprobs=_read_optional(m, "emit_logprobs", count + 1, limits),
        timing=_read_timing(m.timing),
    )


def _read_emit(data: bytes, count: int, limits: Limits) -> tuple[int | None, ...]:
    emit = unpack_u32("result.emit", data, most=count + 1)
    if len(emit) != count + 1:
        raise InvalidField("result.emit", len(emit), f"{count + 1} values, one for each number of candidates kept")
    for token in emit:
        if token >= limits.vocabulary and token != NO_TOKEN:
            raise InvalidField("result.emit", token, f"token ids from 0 to {limits.vocabulary - 1}")
    return tuple(None if token == NO_TOKEN else token for token in emit)


def _read_acceptance(data: bytes, count: int) -> tuple[float, ...]:
    values = unpack_f64("result.acceptance", data, most=count)
    if len(values) != count:
        raise InvalidField("result.acceptance", len(values), f"{count} values, one for each candidate")
    for value in values:
        if not 0.0 <= value <= 1.0:
            raise InvalidField("result.acceptance", value, "probabilities from 0 to 1")
    return values


def _read_ratios(data: bytes, count: int) -> tuple[float, ...]:
    values = unpack_f64("result.ratios", data, most=count)
    if len(values) != count:
        raise InvalidField("result.ratios", len(values), f"{count} values, one for each candidate")
    for value in values:
        if value < 0.0:
            raise InvalidField("result.ratios", value, "numbers from 0")
    return values


def _fill_logprobs(m: target_pb2.LogProbabilities, value: LogProbabilities) -> None:
    """Write `value` into `m`; rows of alternatives that are shorter than the longest are filled up with NO_TOKEN."""
    m.chosen = pack_f32("logprobs.chosen", value.chosen)
    if not value.top:
        return
    width = max(1, *map(len, value.top))
    padding = (NO_TOKEN, -math.inf)
    rows = [(*row, *[padding] * (width - len(row))) for row in value.top]
    m.top_count = width
    m.top_ids = pack_u32("logprobs.top_ids", [token for row in rows for token, _ in row])
    m.top_values = pack_f32("logprobs.top_values", [logprob for row in rows for _, logprob in row])


def _read_optional(m: target_pb2.Result, field: str, count: int, limits: Limits) -> LogProbabilities | None:
    if not m.HasField(field):
        return None
    inner: target_pb2.LogProbabilities = getattr(m, field)
    chosen = unpack_log32(f"result.{field}.chosen", inner.chosen, most=count)
    if len(chosen) != count:
        raise InvalidField(f"result.{field}.chosen", len(chosen), f"{count} values, one for each token")
    return LogProbabilities(chosen, _read_top(inner, f"result.{field}", count, limits))


def _read_scored(m: target_pb2.TargetScored, limits: Limits) -> TargetScored:
    position = read_count("scored.position", m.position, least=1, most=limits.tokens)
    chosen = unpack_log32("scored.logprobs.chosen", m.logprobs.chosen, most=limits.tokens)
    return TargetScored(
        m.sid, position, LogProbabilities(chosen, _read_top(m.logprobs, "scored.logprobs", len(chosen), limits))
    )


def _read_top(
    m: target_pb2.LogProbabilities, field: str, count: int, limits: Limits
) -> tuple[tuple[tuple[int, float], ...], ...]:
    width = read_count(f"{field}.top_count", m.top_count, most=limits.top_logprobs)
    ids = unpack_u32(f"{field}.top_ids", m.top_ids, most=width * count)
    values = unpack_log32(f"{field}.top_values", m.top_values, most=width * count)
    if not len(ids) == len(values) == width * count:
        raise InvalidField(f"{field}.top_ids", len(ids), f"{width * count} ids and as many values")
    for token in ids:
        if token >= limits.vocabulary and token != NO_TOKEN:
            raise InvalidField(f"{field}.top_ids", token, f"token ids from 0 to {limits.vocabulary - 1}")
    if not width:
        return ()
    pairs = tuple(zip(ids, values, strict=True))
    rows = (pairs[start : start + width] for start in range(0, len(pairs), width))
    return tuple(tuple(pair for pair in row if pair[0] != NO_TOKEN) for row in rows)


def _fill_timing(m: target_pb2.RoundTiming, value: RoundTiming) -> None:
    m.verify_queue_us, m.verify_compute_us = value.verify_queue_us, value.verify_compute_us
    m.step_rows, m.evidence_us, m.others_us = value.step_rows, value.evidence_us, value.others_us
    if value.block_lag_us is not None:
        m.block_lag_us = value.block_lag_us
    if value.draft_queue_us is not None:
        m.draft_queue_us = value.draft_queue_us
    if value.draft_compute_us is not None:
        m.draft_compute_us = value.draft_compute_us


def _read_timing(m: target_pb2.RoundTiming) -> RoundTiming:
    return RoundTiming(
        verify_queue_us=m.verify_queue_us,
        verify_compute_us=m.verify_compute_us,
        block_lag_us=m.block_lag_us if m.HasField("block_lag_us") else None,
        draft_queue_us=m.draft_queue_us if m.HasField("draft_queue_us") else None,
        draft_compute_us=m.draft_compute_us if m.HasField("draft_compute_us") else None,
        step_rows=m.step_rows,
        evidence_us=m.evidence_us,
        others_us=m.others_us,
    )


def _read_opened(m: target_pb2.TargetOpened, limits: Limits) -> TargetOpened:
    return TargetOpened(
        sid=m.sid,
        cached_tokens=read_count("opened.cached_tokens", m.cached_tokens, most=limits.tokens),
        longest_length=m.longest_length,
        prefill_us=m.prefill_us,
    )


_READERS: Mapping[str, Callable[[Any, Limits], Any]] = {
    "opened": _read_opened,
    "refused": read_refused,
    "result": _read_result,
    "lost": read_lost,
    "link": read_link,
    "load": lambda m, _: read_load(m),
    "scored": _read_scored,
}
