"""The estimate of a candidate's survival: it finds the law it is taught, place by place, and stays sane without."""

from __future__ import annotations

import math
import random

import pytest

from draft_service.core.session import advanced, opened, prefilled
from draft_service.core.state import Bounds
from draft_service.drafters.estimate import PLACES, Acceptance
from draft_service.drafters.leads import Leads
from draft_service.drafters.pen import Pen
from foreword.laws.parameters import LawParameters
from foreword.protocol.messages import Advance, DraftKeys, DraftOpen, TargetAddress
from foreword.protocol.words import Drafter, Rule
from foreword.values import replace


def taught(slope: float, offset: float, count: int, *, place: int = 0) -> Acceptance:
    acceptance, numbers = Acceptance(), random.Random(4)
    for _ in range(count):
        lead = numbers.expovariate(0.7)
        chance = 1 / (1 + math.exp(-(slope * lead + offset)))
        acceptance.observe(place, lead, kept=numbers.random() < chance)
    return acceptance


@pytest.mark.parametrize(("slope", "offset"), [(1.0, 0.0), (0.4, -1.0), (2.0, -1.5), (0.0, 0.5)])
def test_it_finds_the_law_it_is_taught(slope: float, offset: float) -> None:
    acceptance = taught(slope, offset, 6000)
    for lead in (0.1, 0.5, 1.5, 3.0):
        chance = 1 / (1 + math.exp(-(slope * lead + offset)))
        assert acceptance.estimate(0, lead) == pytest.approx(chance, abs=0.12)


def test_places_are_told_apart_and_those_far_behind_are_one() -> None:
    acceptance = taught(0.3, -2.0, 4000, place=PLACES + 3)
    assert acceptance.estimate(0, 1.0) == pytest.approx(1 / (1 + math.exp(-1)))
    assert acceptance.estimate(PLACES + 40, 1.0) == acceptance.estimate(PLACES - 1, 1.0) < 0.3


def test_a_longer_lead_never_estimates_less_whatever_is_taught() -> None:
    acceptance = Acceptance()
    for _ in range(3000):
        acceptance.observe(0, 4.0, kept=False)
        acceptance.observe(0, 0.1, kept=True)
    estimates = [acceptance.estimate(0, lead) for lead in (0.0, 1.0, 5.0, math.inf)]
    assert estimates == sorted(estimates)
    assert all(0.0 <= one <= 1.0 for one in estimates)


def test_without_observations_it_is_the_share_of_the_first_against_the_second() -> None:
    assert Acceptance().estimate(3, math.log(3)) == pytest.approx(0.75)


def test_a_block_is_learned_from_by_what_the_next_one_begins_with() -> None:
    """Kept, refused, and unknown behind that; a planted estimator notes it."""
    seen: list[tuple[int, float, bool]] = []
    leads = Leads()
    leads._acceptance.observe = lambda place, lead, *, kept: seen.append((place, lead, kept))  # type: ignore[method-assign]
    pen = begun((1, 2, 3))
    leads.begin(pen)
    for token, lead in ((7, 2.0), (8, 1.0), (9, 3.0)):
        assert 0.5 < leads.estimate(pen, token, lead) < 1.0
    leads.begin(begun((1, 2, 3, 7, 5)))
    assert seen == [(0, 2.0, True), (1, 1.0, False)]
    leads.begin(begun((1, 2)))
    leads.forget(0)
    leads.begin(begun((1, 2, 3, 7)))
    assert len(seen) == 2


def begun(tokens: tuple[int, ...]) -> Pen:
    """Return the pen of a session that has these tokens and begins a block."""
    message = DraftOpen(
        1, tokens, 1, LawParameters(temperature=0.0), DraftKeys(bytes(16)), TargetAddress("", "", bytes(16)), 4
    )
    session = replace(opened(message, Bounds(100, 4, Drafter.MODEL)), cached=len(tokens) - 1)
    session, _ = prefilled(session)
    order = Advance(
        1, round=1, base=len(tokens) - 1, tokens=(), digest=session.sequence.digest, rule=Rule.MATCH, gamma=4
    )
    session, _ = advanced(session, order)
    return Pen(0, session)
