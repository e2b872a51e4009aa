"""A block written with a pen is the block that single transitions write."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from draft_service.core import session as transitions
from draft_service.core import writing
from draft_service.core.state import Bounds, Outcome, Phase, Session
from draft_service.core.writing import Drawn
from draft_service.drafters.pen import Pen
from foreword.laws.parameters import LawParameters
from foreword.protocol.digest import EMPTY, extend
from foreword.protocol.messages import Advance, SparseCounts
from foreword.protocol.words import Drafter, Rule
from foreword.values import replace
from tests.unit.draft_service.kit import opening

LAW = SparseCounts((1, 2), (8, 8), 4)


def session_at(gamma: int, *, rule: Rule, threshold: float, longest: int) -> Session:
    message = opening(1, law=LawParameters(stop_ids=(7,)))
    session = transitions.opened(message, Bounds(longest, 16, Drafter.MODEL))
    session, _ = transitions.prefilled(replace(session, cached=2))
    digest = extend(EMPTY, message.tokens)
    order = Advance(1, 1, 0, (), digest, rule, gamma, stop_threshold=threshold)
    session, _ = transitions.advanced(session, order)
    return session


@given(
    tokens=st.lists(st.integers(1, 8), min_size=1, max_size=8),
    gamma=st.integers(1, 6),
    rule=st.sampled_from(Rule),
    threshold=st.sampled_from([0.0, 0.6]),
    longest=st.integers(5, 12),
    interrupted=st.sets(st.integers(0, 7)),
)
def test_steps_gathered_are_steps_one_by_one(
    tokens: list[int], gamma: int, rule: Rule, threshold: float, longest: int, interrupted: set[int]
) -> None:
    start = session_at(gamma, rule=rule, threshold=threshold, longest=longest)
    laws = None if rule is Rule.MATCH else (LAW,)
    steps = [Drawn((token,), laws, confidence=0.9) for token in tokens]

    single: Outcome = (start, ())
    for step in steps:
        if single[0].phase is Phase.DRAFT:
            single = writing.drawn(single[0], writing.draw(single[0]), step)

    session, actions, pen = start, (), Pen(0, start)
    for number, step in enumerate(steps):
        if session.phase is not Phase.DRAFT:
            break
        assert pen.rows == writing.draw(single_before(start, steps[:number])).rows
        if pen.add(step):
            session, actions = writing.drawn(session, *pen.gathered(complete=True))
        elif number in interrupted:
            session, actions = writing.drawn(session, *pen.gathered(complete=False))
            pen = Pen(0, session)
    if session.phase is Phase.DRAFT and pen.ids:
        session, actions = writing.drawn(session, *pen.gathered(complete=False))
    assert rounded(session) == rounded(single[0])
    assert actions == single[1]


def single_before(session: Session, steps: list[Drawn]) -> Session:
    for step in steps:
        session, _ = writing.drawn(session, writing.draw(session), step)
    return session


def rounded(session: Session) -> Session:
    """Products of confidences may differ in the last bit."""
    assert session.writing is not None
    return replace(session, writing=replace(session.writing, survival=round(session.writing.survival, 9)))
