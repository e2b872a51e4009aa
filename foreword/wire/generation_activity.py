"""Codec of GetActivity: what an orchestrator is doing."""

from __future__ import annotations

from foreword.protocol.activity import MOST_CHOICES, Activity, ChoiceActivity
from foreword.v1 import generation_pb2
from foreword.wire.common import RULES, parsed, read_count, read_enum, read_text
from foreword.wire.generation_choice import fill_choice, read_choice
from foreword.wire.generation_usage import fill_usage, read_usage
from foreword.wire.limits import Limits
from foreword.wire.methods import GENERATION_SERVICE
from foreword.wire.packing import pack_u32, unpack_u32

GET_ACTIVITY = f"/{GENERATION_SERVICE}/GetActivity"


def encode_activity(value: Activity) -> bytes:
    """Return `value` as the bytes of GenerationServiceGetActivityResponse; raises InvalidField."""
    m = generation_pb2.GenerationServiceGetActivityResponse(requests=value.requests)
    for choice in value.choices:
        _fill(m.choices.add(), choice)
    return m.SerializeToString()


def decode_activity(data: bytes, limits: Limits) -> Activity:
    """Return the activity in `data`; raises InvalidField or ProtocolFault."""
    m = parsed("activity", generation_pb2.GenerationServiceGetActivityResponse, data)
    read_count("activity.choices", len(m.choices), most=MOST_CHOICES)
    return Activity(m.requests, tuple(_read(choice, limits) for choice in m.choices))


def _fill(m: generation_pb2.ChoiceActivity, value: ChoiceActivity) -> None:
    m.request_id, m.choice, m.age_us = value.request_id, value.choice, value.age_us
    m.target, m.draft = value.target, value.draft
    m.rule = int(value.rule)  # type: ignore[assignment]
    fill_usage(m.usage, value.usage)
    fill_choice(m.gamma, value.gamma)
    m.results_by_gamma = pack_u32("activity.results_by_gamma", value.results_by_gamma)


def _read(m: generation_pb2.ChoiceActivity, limits: Limits) -> ChoiceActivity:
    return ChoiceActivity(
        request_id=read_text("activity.request_id", m.request_id, limits.text),
        choice=m.choice,
        age_us=m.age_us,
        target=read_text("activity.target", m.target, limits.text),
        draft=read_text("activity.draft", m.draft, limits.text),
        rule=read_enum("activity.rule", RULES, m.rule),
        usage=read_usage(m.usage, limits),
        gamma=read_choice(m.gamma, limits),
        results_by_gamma=unpack_u32("activity.results_by_gamma", m.results_by_gamma, most=limits.gamma + 1),
    )
