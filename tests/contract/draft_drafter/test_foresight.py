"""What every drafter that drafts ahead has to keep."""

from __future__ import annotations

import pytest

from draft_service.ahead.forecast import BLIND, RANKS, Outlook
from draft_service.core import writing
from draft_service.core.outcomes import Ending, Guess, supposed
from draft_service.core.state import Phase, Session
from draft_service.drafters.foresight import Foresight, LookJob
from draft_service.drafters.mixed import MixedDrafter
from draft_service.drafters.pen import Pen
from draft_service.drafters.port import Drafter
from foreword.laws.parameters import LawParameters
from foreword.protocol.words import Drafter as Kind
from foreword.protocol.words import Rule
from foreword.values import replace
from tests.contract.draft_drafter.test_drafters import GREEDY, VOCABULARY, WARM, block, drafting, mixed, real, synthetic

TEXT = (5, 16, 7, 28, 9, 30, 11, 2, 13, 34, 15)  # nothing in it comes twice, so that a mixed drafter asks its model
REPEATED = (5, 6, 7, 8, 9)


@pytest.fixture(params=[synthetic, mixed, real], ids=lambda make: make.__name__)
def make(request: pytest.FixtureRequest):
    """Return a function that makes an empty drafter."""
    return request.param


def sent(drafter: Drafter, slot: int, session: Session) -> Session:
    """Return the session whose block is out."""
    pen = block(drafter, slot, session)
    session, _ = writing.drawn(session, *pen.gathered(complete=True))
    assert session.phase is Phase.SENT
    return session


def looked(drafter: Drafter, slot: int, session: Session) -> tuple[Session, Outlook]:
    assert isinstance(drafter, Foresight)
    assert session.writing is not None
    first = session.length - len(session.writing.ids) - 1
    cached = min(session.cached, first)
    job = LookJob(slot, session, cached, session.context_from(cached))
    _, (outlook,) = drafter.look_ahead([], [job])
    assert isinstance(outlook, Outlook)
    return replace(session, cached=session.length), outlook


def branch_block(drafter: Drafter, slot: int, session: Session) -> Session:
    """Return the session of a branch with its block."""
    assert isinstance(drafter, Foresight)
    pen = Pen(slot, session)
    while True:
        (drawn,), _ = drafter.look_ahead([pen], [])
        assert not isinstance(drawn, Exception)
        if pen.add(drawn):
            return writing.drawn(session, *pen.gathered(complete=True))[0]


WAYS = [
    (Rule.MATCH, GREEDY),
    (Rule.MATCH, WARM),
    (Rule.BLOCK, WARM),
    (Rule.MATCH, LawParameters(0.0, bias=((3, 2.0),))),
]


@pytest.mark.parametrize(("rule", "law"), WAYS)
def test_rankings_leave_out_the_candidate_and_begin_with_what_would_be_drafted(make, rule, law) -> None:
    drafter = make()
    drafter.open(0)
    session, outlook = looked(drafter, 0, sent(drafter, 0, drafting(TEXT, rule=rule, law=law)))
    assert session.writing is not None
    ids = session.writing.ids
    assert (len(outlook.rankings), len(outlook.leads)) == (len(ids) + 1, len(ids))
    for kept, ranking in enumerate(outlook.rankings):
        assert 0 < len(ranking) <= RANKS
        assert len(set(ranking)) == len(ranking)
        assert all(0 <= token < VOCABULARY for token in ranking)
        assert kept == len(ids) or ids[kept] not in ranking
    if rule is Rule.MATCH:
        fresh = make()
        fresh.open(0)
        after = replace(drafting(TEXT, rule=rule, law=law, gamma=5))
        assert block(fresh, 0, after).ids == (*ids, outlook.rankings[-1][0])


@pytest.mark.parametrize(("rule", "law"), WAYS)
@pytest.mark.parametrize("kept", [0, 2, 4])
def test_a_branch_drafts_what_the_session_would(make, rule, law, kept: int) -> None:
    drafter, fresh = make(), make()
    for one in (drafter, fresh):
        one.open(0)
    session, outlook = looked(drafter, 0, sent(drafter, 0, drafting(TEXT, rule=rule, law=law)))
    assert isinstance(drafter, Foresight)
    branches = []
    for rank in (0, 1):
        guess = Guess(kept, outlook.rankings[kept][rank], Ending.CORRECTION, rank, 0.5)
        then = supposed(session, guess)
        assert then is not None
        drafter.branch(0, 10 + rank, then.cached)
        branches.append((then, branch_block(drafter, 10 + rank, then)))
    for then, prepared in branches:
        fresh.close(0)
        fresh.open(0)
        plain = block(fresh, 0, replace(then, cached=0)).gathered(complete=True)[1]
        assert prepared.writing is not None
        assert (prepared.writing.ids, prepared.writing.laws) == (plain.ids, plain.laws)
    then, prepared = branches[1]
    drafter.close(10)
    assert drafter.take_over(0, 11, then, prepared, shipped=True)
    after = replace(prepared, phase=Phase.DRAFT, order=replace(then.order, gamma=6))  # type: ignore[type-var]
    fresh.close(0)
    fresh.open(0)
    assert block(drafter, 0, after).ids == block(fresh, 0, replace(after, cached=0)).ids
    drafter.close(0)
    assert drafter.resident_tokens == 0


def quoting() -> MixedDrafter:
    """Return a mixed drafter whose lookup has learned that it is right."""
    drafter = mixed()
    drafter.open(0)
    text = REPEATED * 6
    for _ in range(6):
        session = sent(drafter, 0, drafting(text))
        assert session.writing is not None
        text = (*text, *(REPEATED * 2)[len(text) % 5 :][:5])
    return drafter


def test_behind_a_block_that_lookup_wrote_a_mixed_drafter_sees_nothing() -> None:
    drafter = quoting()
    session, outlook = looked(drafter, 0, sent(drafter, 0, drafting(REPEATED * 7)))
    assert session.writing is not None
    assert session.writing.ids == REPEATED[:4]
    assert outlook == BLIND


@pytest.mark.parametrize("drawn", [False, True])
def test_a_mixed_drafter_leaves_a_branch_for_lookup_only_while_nothing_of_it_is_drawn(drawn: bool) -> None:
    """Else what a branch drew, by way of how far it got, would decide whether it is used."""
    drafter = quoting()
    session, outlook = looked(drafter, 0, sent(drafter, 0, drafting((*REPEATED * 7, 1, 5))))
    assert session.writing is not None
    assert session.writing.drafter is not Kind.LOOKUP
    assert outlook.rankings
    then = supposed(session, Guess(0, 6, Ending.CORRECTION, 0, 0.5))  # 5, 6 came before
    assert then is not None
    drafter.branch(0, 1, then.cached)
    prepared = branch_block(drafter, 1, then) if drawn else then
    assert drafter.take_over(0, 1, then, prepared, shipped=False) is drawn
