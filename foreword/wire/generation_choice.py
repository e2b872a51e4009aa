"""How a number of candidates was chosen, to and from the wire."""

from __future__ import annotations

from foreword.protocol.generation import GammaChoice
from foreword.v1 import generation_pb2
from foreword.wire.common import read_count, read_finite, read_text
from foreword.wire.limits import Limits

_NUMBERS = ("candidate_us", "plain_us", "price", "threshold", "lookup_threshold")


def fill_choice(m: generation_pb2.GammaChoice, value: GammaChoice) -> None:
    """Write `value` into `m`."""
    m.gamma, m.why = value.gamma, value.why
    for name in _NUMBERS:
        setattr(m, name, getattr(value, name))
    if value.fixed_us is not None:
        m.fixed_us = value.fixed_us
    m.survival.extend(value.survival)
    m.tokens_per_s.extend(value.tokens_per_s)


def read_choice(m: generation_pb2.GammaChoice, limits: Limits) -> GammaChoice:
    """Return the value; raises InvalidField for numbers that are none, and for lists beyond the largest block."""
    for name in ("survival", "tokens_per_s"):
        read_count(f"timings.gamma.{name}", len(getattr(m, name)), most=limits.gamma + 1)
    return GammaChoice(
        gamma=m.gamma,
        why=read_text("timings.gamma.why", m.why, limits.text),
        fixed_us=read_finite("timings.gamma.fixed_us", m.fixed_us) if m.HasField("fixed_us") else None,
        **{name: read_finite(f"timings.gamma.{name}", getattr(m, name)) for name in _NUMBERS},
        survival=tuple(read_finite("timings.gamma.survival", value) for value in m.survival),
        tokens_per_s=tuple(read_finite("timings.gamma.tokens_per_s", value) for value in m.tokens_per_s),
    )
