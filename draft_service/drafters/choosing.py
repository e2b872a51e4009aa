"""From a draft law to a candidate, per acceptance rule: which law, which random numbers, what goes on the wire; pure.

Under `token` and `block` the candidate is drawn from the very integer counts that are sent (rounded first, sampled
second). Under `match` no law is sent and any way of drawing is exact; the coupled one agrees most often.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum, auto

import numpy as np

from foreword.addresses.philox import uniforms
from foreword.laws.counts import counts_law, sample, to_counts
from foreword.laws.law import Law
from foreword.laws.parameters import LawParameters
from foreword.laws.sampling import match_led, sample_uniform
from foreword.protocol.messages import DraftKeys, SparseCounts
from foreword.protocol.words import Rule


class MatchDraw(Enum):
    """How candidates are drawn under `match` at a temperature over 0."""

    COUPLED = "coupled"
    """With the target's own noise, where the session brings its key; else the likeliest token."""
    SAMPLED = "sampled"
    """With the draft's own numbers."""
    ARGMAX = "argmax"
    """The likeliest token."""


class Manner(Enum):
    """How one candidate is drawn."""

    LIKELIEST = auto()
    COUPLED = auto()
    SAMPLED = auto()
    COUNTED = auto()
    """From integer counts that go along."""

    @property
    def has_numbers(self) -> bool:
        """Whether the draft's own random numbers are drawn with."""
        return self in (Manner.SAMPLED, Manner.COUNTED)


@dataclass(frozen=True, slots=True)
class Style:
    """Settings of drawing."""

    match_draw: MatchDraw = MatchDraw.COUPLED
    temperature_scale: float = 1.0
    """Multiplies the request's temperature in the draft's law."""
    fitted_scales: tuple[tuple[float, float], ...] = ()
    """What multiplies it as well: temperatures, ascending, with the factor at which this draft's law overlaps most."""
    support_mass: float = 0.995
    """Probability mass that the support of integer counts reaches."""
    support_max: int = 128
    """Most ids in that support."""
    total_bits: int = 12
    """Base-2 logarithm of the sum of the counts."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A candidate, and the counts that it was drawn from under `token` and `block` at a temperature over 0."""

    token: int
    counts: SparseCounts | None
    lead: float = math.inf
    """Under coupling, by how many nats log q with its noise led the second."""


def manner(rule: Rule, law: LawParameters, keys: DraftKeys, style: Style) -> Manner:
    """Return how candidates of a session are drawn under a rule."""
    if law.greedy:
        return Manner.LIKELIEST
    if rule is not Rule.MATCH:
        return Manner.COUNTED
    if style.match_draw is MatchDraw.COUPLED and keys.match is not None:
        return Manner.COUPLED
    return Manner.SAMPLED if style.match_draw is MatchDraw.SAMPLED else Manner.LIKELIEST


def draft_parameters(how: Manner, law: LawParameters, style: Style) -> LawParameters:
    """Return the parameters of the draft's law: the target's, with the draft's own temperature."""
    if law.greedy:
        return law
    if how is Manner.LIKELIEST:
        return replace(law, temperature=0.0)
    scale = style.temperature_scale
    if how is not Manner.COUPLED:  # fitted for laws that are drawn from apart, not for one noise on both
        scale *= fitted_scale(style.fitted_scales, law.temperature)
    return law if scale == 1.0 else replace(law, temperature=law.temperature * scale)


def fitted_scale(fitted: tuple[tuple[float, float], ...], temperature: float) -> float:
    """Return the factor at a temperature: linear between those that were fitted, and constant beyond them."""
    if not fitted:
        return 1.0
    return float(np.interp(temperature, [one for one, _ in fitted], [factor for _, factor in fitted]))


def choose(how: Manner, law: Law, keys: DraftKeys, *, position: int, number: int, style: Style) -> Chosen:
    """Draw one candidate from the draft's law; `number` is the draft's own, of 64 bits, at the candidate's address."""
    if how is Manner.COUPLED:
        assert keys.match is not None
        token, lead = match_led(law, keys.match, position)
        return Chosen(token, None, lead)
    if how is Manner.LIKELIEST:
        return Chosen(law.best, None)
    if how is Manner.SAMPLED:
        return Chosen(sample_uniform(law, float(uniforms(np.array([number], dtype=np.uint64))[0])), None)
    counts = to_counts(law, bits=style.total_bits, mass=style.support_mass, cap=style.support_max)
    return Chosen(sample(counts, number), counts)


def margin(how: Manner, law: Law, chosen: Chosen) -> float:
    """Return by how much the first choice led the second, in nats: of log q, with its noise under coupling.

    Infinite where only one token can come, as in the one-hot law of temperature 0.
    """
    if how is Manner.COUPLED:
        return chosen.lead
    return (law if chosen.counts is None else counts_law(chosen.counts)).margin
