"""Transitions of a session whose short cuts must agree with the plain way."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.protocol.messages import Commit, PlainOrder, Recall, TargetClose
from foreword.protocol.sequence import Sequence, common, usable
from foreword.protocol.words import LossCode, Rule
from target_service.core.session import closed, committed, opened, prefilled, recalled, stream_ended
from target_service.core.state import Bounds, Count, Free, Phase, Session, Tell
from target_service.core.step import build
from tests.unit.target_service.kit import open_session

TOKENS = st.lists(st.integers(0, 2), max_size=5).map(tuple)
BOUNDS = Bounds(vocabulary_size=64, longest_length=1000, max_output=1000, gamma_max=8)


def session_of(prompt: tuple[int, ...], output: tuple[int, ...], assumed: tuple[int, ...], cached: int) -> Session:
    fresh = opened(open_session(tokens=(1, *prompt), max_output=1000), BOUNDS)
    sequence = Sequence.of((1, *prompt, *output), 1 + len(prompt))
    return replace(fresh, phase=Phase.IDLE, sequence=sequence, assumed=assumed, cached=cached)


@given(prompt=TOKENS, output=TOKENS, assumed=TOKENS, more=TOKENS, share=st.floats(0, 1), back=st.integers(0, 2))
def test_what_is_still_cached_after_a_commit(
    prompt: tuple[int, ...],
    output: tuple[int, ...],
    assumed: tuple[int, ...],
    more: tuple[int, ...],
    share: float,
    back: int,
) -> None:
    held = (1, *prompt, *output, *assumed)
    cached = round(share * (len(held) - 1))
    session = session_of(prompt, output, assumed, cached)
    start = max(0, len(output) - back)
    sequence = Sequence.of((1, *prompt, *output[:start], *more), 1 + len(prompt))
    commit = Commit(1, 1, sequence.base, more, sequence.digest, Rule.MATCH, PlainOrder(9))
    after, _ = committed(session, commit)
    assert after.sequence == sequence
    assert after.cached == usable(cached, held, sequence.tokens, 0)
    _, work = build(after)
    assert work.rows == sequence.tokens[after.cached :]
    assert work.rows, "every step has a row"


@given(output=TOKENS, leased=TOKENS, share=st.floats(0, 1))
def test_rows_of_a_lease_are_what_the_cache_lacks(
    output: tuple[int, ...], leased: tuple[int, ...], share: float
) -> None:
    session = session_of((5,), output, leased, 0)
    session = replace(session, phase=Phase.LEASE, leased=len(leased))
    session = replace(session, cached=round(share * (len(session.context) - 1)))
    _, work = build(session)
    assert work.rows == session.context[session.cached :]
    assert session.length == len(session.context)


@pytest.mark.parametrize("phase", [Phase.IDLE, Phase.LEASE, Phase.RUN])
@pytest.mark.parametrize(
    ("output", "assumed", "final_length", "named"),
    [((5, 6), (7, 8, 9), 2, ()), ((5, 6), (7, 8, 9), 4, (7, 8)), ((5, 6, 7, 8), (9,), 2, ()), ((5, 6), (7,), 3, (1,))],
    ids=["behind what was committed", "within a lease", "before what was committed", "with another token"],
)
def test_a_close_leaves_no_token_behind_its_length_to_others(
    phase: Phase, output: tuple[int, ...], assumed: tuple[int, ...], final_length: int, named: tuple[int, ...]
) -> None:
    held = (1, 2, *output, *assumed)
    session = replace(session_of((2,), output, assumed, len(held) - 1), phase=phase, leased=len(assumed))
    gone, actions = closed(session, TargetClose(1, final_length, named))
    if phase is Phase.RUN:
        assert (gone.closing, actions) == (True, ())
        gone, actions = stream_ended(replace(gone, phase=Phase.IDLE))
    shared = common(held, (1, 2, *output[:final_length], *named), 0)
    assert actions == (Free(1, min(shared, len(held) - 1)),)
    assert gone.sequence.tokens[:shared] == held[:shared]


def test_only_one_commit_and_its_recall_are_remembered_while_the_prompt_is_read() -> None:
    session = opened(open_session(max_output=1000), BOUNDS)
    first = Commit(1, 3, 0, (), session.sequence.digest, Rule.MATCH, PlainOrder(9))
    session, _ = committed(session, first)
    for _ in range(3):
        session, actions = recalled(session, Recall(1, 4))
        assert actions == (Count("old_recall"),)
    session, _ = recalled(session, Recall(1, 3))
    session, actions = recalled(session, Recall(1, 3))
    assert actions == (Count("old_recall"),)
    assert session.remembered == (first, Recall(1, 3))
    ready, _ = prefilled(replace(session, cached=4))
    assert (ready.phase, ready.recalled) == (Phase.LEASE, True)
    _, actions = committed(session, replace(first, round=4))
    (told,) = (a.event for a in actions if isinstance(a, Tell))
    assert told.code is LossCode.PROTOCOL  # type: ignore[union-attr]
