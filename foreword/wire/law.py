"""Codec of a session's law: sampling parameters and grammar."""

from __future__ import annotations

from collections.abc import Mapping

from foreword.errors import InvalidField
from foreword.laws.parameters import Grammar, LawParameters
from foreword.v1 import common_pb2
from foreword.wire.common import fit_count, fit_text, read_text
from foreword.wire.limits import Limits
from foreword.wire.packing import pack_f32, pack_u32, unpack_f32, unpack_ids

GRAMMAR_KINDS: Mapping[str, int] = {
    "json_object": common_pb2.GRAMMAR_KIND_JSON_OBJECT,
    "json_schema": common_pb2.GRAMMAR_KIND_JSON_SCHEMA,
    "regex": common_pb2.GRAMMAR_KIND_REGEX,
    "choice": common_pb2.GRAMMAR_KIND_CHOICE,
    "lark": common_pb2.GRAMMAR_KIND_LARK,
}
_KINDS_BY_NUMBER: Mapping[int, str] = {number: kind for kind, number in GRAMMAR_KINDS.items()}


def fill_law(m: common_pb2.LawParameters, value: LawParameters) -> None:
    """Write `value` into `m`; biases are rounded to f32.

    Raises InvalidField for a grammar that is not known, and for a number that does not fit its field.
    """
    m.temperature = value.temperature
    if value.top_k is not None:
        m.top_k = fit_count("top_k", value.top_k, least=1)
    if value.top_p is not None:
        m.top_p = value.top_p
    if value.min_p is not None:
        m.min_p = value.min_p
    if value.repetition_penalty != 1.0:
        m.repetition_penalty = value.repetition_penalty
    if value.presence_penalty != 0.0:
        m.presence_penalty = value.presence_penalty
    if value.frequency_penalty != 0.0:
        m.frequency_penalty = value.frequency_penalty
    if value.bias:
        m.bias_ids = pack_u32("law.bias_ids", [token for token, _ in value.bias])
        m.bias_values = pack_f32("law.bias_values", [bias for _, bias in value.bias])
    m.banned_ids = pack_u32("law.banned_ids", value.banned_ids)
    m.stop_ids = pack_u32("law.stop_ids", value.stop_ids)
    m.min_tokens = fit_count("min_tokens", value.min_tokens)
    if value.grammar is not None:
        fill_grammar(m.grammar, value.grammar)


def read_law(m: common_pb2.LawParameters, limits: Limits) -> LawParameters:
    """Return the law in `m`; raises InvalidField for the first value that is out of its range."""
    most, vocabulary = limits.law_ids, limits.vocabulary
    bias_ids = unpack_ids("law.bias_ids", m.bias_ids, most=most, vocabulary=vocabulary)
    bias_values = unpack_f32("law.bias_values", m.bias_values, most=most)
    if len(bias_ids) != len(bias_values):
        raise InvalidField("law.bias_values", len(bias_values), f"{len(bias_ids)} values, one for each of bias_ids")
    return LawParameters(
        temperature=m.temperature,
        top_k=m.top_k if m.HasField("top_k") else None,
        top_p=m.top_p if m.HasField("top_p") else None,
        min_p=m.min_p if m.HasField("min_p") else None,
        repetition_penalty=m.repetition_penalty if m.HasField("repetition_penalty") else 1.0,
        presence_penalty=m.presence_penalty,
        frequency_penalty=m.frequency_penalty,
        bias=tuple(zip(bias_ids, bias_values, strict=True)),
        banned_ids=unpack_ids("law.banned_ids", m.banned_ids, most=most, vocabulary=vocabulary),
        stop_ids=unpack_ids("law.stop_ids", m.stop_ids, most=most, vocabulary=vocabulary),
        min_tokens=m.min_tokens,
        grammar=read_grammar(m.grammar, limits) if m.HasField("grammar") else None,
    ).validate()


def fill_grammar(m: common_pb2.Grammar, value: Grammar) -> None:
    """Write `value` into `m`; raises InvalidField for a kind that is not known, and a source that cannot be sent."""
    if value.kind not in GRAMMAR_KINDS:
        raise InvalidField("grammar.kind", value.kind, f"one of {', '.join(GRAMMAR_KINDS)}")
    m.kind, m.source = GRAMMAR_KINDS[value.kind], fit_text("grammar.source", value.source)  # type: ignore[assignment]


def read_grammar(m: common_pb2.Grammar, limits: Limits) -> Grammar:
    """Return the grammar in `m`; raises InvalidField."""
    kind = _KINDS_BY_NUMBER.get(m.kind)
    if kind is None:
        raise InvalidField("grammar.kind", int(m.kind), f"one of {', '.join(GRAMMAR_KINDS)}")
    return Grammar(kind=kind, source=read_text("grammar.source", m.source, limits.grammar))
