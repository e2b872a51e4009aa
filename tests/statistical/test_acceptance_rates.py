"""Acceptance as it is reported is what theory says: others showed 100 % that came from how it was counted."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from foreword.acceptance import Verdict
from foreword.laws.counts import counts_law, to_counts
from foreword.protocol.generation import Usage
from foreword.protocol.messages import Result
from foreword.protocol.words import ResultKind, Rule
from orchestrator.core.state import Emit
from orchestrator.measure.rounds import RoundParts
from orchestrator.sessions.output import Decided, Places
from orchestrator.sink.usage import UsageCounter
from tests.statistical.enumeration import Style, Tables
from tests.statistical.test_seeded_path import GATE, Keys, generate

GAMMA, ROUNDS, SESSIONS = 3, 5, 150
TABLES = Tables(4, seed=3, difference=1.0, memoryless=True)
PARTS = RoundParts(None, None, None, None, 0, 0, 0)


def overlap() -> float:
    """Return Σ min(p, q), the probability that the token rule keeps a candidate (Leviathan et al. 2023)."""
    p, q = TABLES.target(()), counts_law(to_counts(TABLES.draft(()), bits=8, mass=0.99))
    return sum(min(p.probability_of(token), q.probability_of(token)) for token in range(TABLES.vocabulary))


def reported() -> Usage:
    """Return the account of many rounds; as many of each session, so that lucky ones do not count for more or less."""
    counter = UsageCounter()
    for seed in range(SESSIONS):
        horizon = ROUNDS * (GAMMA + 1)
        _, kept = generate(Keys.of(seed), Rule.TOKEN, Style.COUNTS, tables=TABLES, horizon=horizon, gamma=GAMMA)
        for count in kept[:ROUNDS]:
            result = Result(
                sid=1,
                round=1,
                base=0,
                final=True,
                kind=ResultKind.EVIDENCE,
                emit=(0,) * (GAMMA + 1),
                ids=(0,) * GAMMA,
                acceptance=(0.5,) * GAMMA,
            )
            counter.decided(Decided(Emit((), Verdict(count, 0), result), gamma=GAMMA, late=False, parts=PARTS))
    return counter.usage(0, Places(1, 1, 0, Rule.TOKEN))


@pytest.fixture(scope="module")
def usage() -> Usage:
    return reported()


@pytest.mark.parametrize("position", range(GAMMA))
def test_a_candidate_is_kept_as_often_as_the_laws_overlap(usage: Usage, position: int) -> None:
    """Position i is kept with the overlap to the power i + 1, of all blocks that offered one there."""
    offered, kept = usage.offered_per_position[position], usage.accepted_per_position[position]
    assert offered == SESSIONS * ROUNDS
    assert stats.binomtest(kept, offered, overlap() ** (position + 1)).pvalue > GATE / GAMMA
    assert 0.3 < overlap() < 0.9


def test_a_rate_of_what_was_reached_only_is_told_apart(usage: Usage) -> None:
    """Planted: candidates behind a rejection left out of what was offered make later positions look better."""
    reached = usage.accepted_per_position[0]
    flattered = stats.binomtest(usage.accepted_per_position[1], reached, overlap() ** 2).pvalue
    assert flattered < GATE
    assert np.all(np.diff(usage.accepted_per_position) < 0)
