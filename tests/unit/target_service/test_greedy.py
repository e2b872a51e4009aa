"""The short way at temperature 0 finds what the general way finds, or leaves it to it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.errors import EngineFailure
from foreword.laws.parameters import Grammar, LawParameters
from foreword.protocol.messages import BlockOrder, Commit
from foreword.protocol.words import Rule
from foreword.runner.port import Logits
from target_service.core.session import opened
from target_service.core.state import Bounds, Phase, Session
from target_service.core.step import Work
from target_service.engine.arithmetic import REFERENCE
from target_service.engine.greedy import greedy_step
from target_service.engine.judge import _judge_by_laws, judge
from tests.unit.target_service.kit import GREEDY, Peer, open_session, ticket

BOUNDS = Bounds(vocabulary_size=6, longest_length=64, max_output=32, gamma_max=8)


def session(law: LawParameters = GREEDY, *, rule: Rule = Rule.MATCH, ids: tuple[int, ...] = ()) -> Session:
    peer = Peer(rule=rule)
    commit = Commit(1, 1, 0, (), peer.sequence.digest, rule=rule, order=BlockOrder(0, 8, ticket(1)))
    block = replace(peer.block(ids), round=1) if ids else None
    return replace(opened(open_session(law=law), BOUNDS), phase=Phase.RUN, round=1, commit=commit, block=block)


def part(one: Session, ids: tuple[int, ...], logits: Logits) -> tuple[Session, Work, Logits]:
    return one, Work(1, 0, (0, *ids), len(ids) + 1, ids), logits


def drawn_part(seed: int, gamma: int, agreement: float) -> tuple[Session, Work, Logits]:
    """Return a step over logits with ties, whose candidates are the argmax in so many cases."""
    rng = np.random.default_rng(seed)
    logits = rng.integers(-3, 3, (gamma + 1, 6)).astype(np.float32)
    logits[:, 4] = -math.inf
    ids = tuple(int(row.argmax()) if rng.random() < agreement else int(rng.integers(6)) for row in logits[:gamma])
    return part(session(ids=ids), ids, logits)


@given(st.integers(0, 2**32 - 1), st.integers(0, 5), st.floats(0.0, 1.0))
def test_both_ways_find_the_same(seed: int, gamma: int, agreement: float) -> None:
    one = drawn_part(seed, gamma, agreement)
    found = greedy_step(*one)
    assert found is not None
    assert [found] == _judge_by_laws([one], REFERENCE)


@pytest.mark.parametrize(
    "planted",
    [lambda logits: np.roll(logits, -1, axis=0), lambda logits: logits + np.arange(6, dtype=np.float32) / 100],
    ids=["the row behind", "ties to the highest id"],
)
def test_a_planted_bug_would_be_seen(planted: Callable[[Logits], Logits]) -> None:
    parts = [drawn_part(seed, 4, 0.7) for seed in range(50)]
    wrong = [greedy_step(one, work, planted(logits)) for one, work, logits in parts]
    assert sum(one != other for one, other in zip(wrong, _judge_by_laws(parts, REFERENCE), strict=True)) > 10


@pytest.mark.parametrize(
    "one",
    [
        session(LawParameters(temperature=0.5)),
        session(LawParameters(temperature=0.0, bias=((2, 1.0),))),
        session(LawParameters(temperature=0.0, banned_ids=(2,))),
        session(LawParameters(temperature=0.0, presence_penalty=0.5)),
        session(LawParameters(temperature=0.0, stop_ids=(2,), min_tokens=1)),
        session(LawParameters(temperature=0.0, grammar=Grammar("json_object"))),
        session(rule=Rule.TOKEN),
        replace(session(), top_logprobs=0),
    ],
)
def test_everything_else_takes_the_general_way(one: Session) -> None:
    logits = np.array([[0.0, 1.0, 2.0, 0.0, 0.0, 0.0]], dtype=np.float32)
    assert greedy_step(*part(session(), (), logits)) is not None
    assert greedy_step(*part(one, (), logits)) is None


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_logits_that_are_no_numbers_are_an_error_of_their_session_alone(wrong: float) -> None:
    good = np.array([[0.0, 1.0, 2.0, 0.0, 0.0, 0.0]], dtype=np.float32)
    bad = good.copy()
    bad[0] = wrong if wrong < 0 else bad[0]
    bad[0, 3] = wrong
    parts = [part(session(), (), bad), part(session(), (), good), part(session(LawParameters()), (), good)]
    error, quick, drawn = judge(parts)
    assert isinstance(error, EngineFailure)
    assert quick == greedy_step(*parts[1])
    assert [drawn] == _judge_by_laws(parts[2:], REFERENCE)
