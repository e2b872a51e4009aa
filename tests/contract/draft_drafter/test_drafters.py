"""What every drafter has to keep, whatever it drafts with."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from draft_service.core import session as transitions
from draft_service.core.reading import Compare, Read
from draft_service.core.state import Bounds, Session
from draft_service.drafters.choosing import Style
from draft_service.drafters.lookup import LookupDrafter, LookupStyle
from draft_service.drafters.mixed import MixedDrafter
from draft_service.drafters.model import ModelDrafter
from draft_service.drafters.pen import Pen
from draft_service.drafters.port import Abilities, CompareJob, Drafter, ReadJob
from draft_service.engine.costs import SESSIONS, measure_costs
from foreword.errors import ForewordError
from foreword.laws.counts import validate_block
from foreword.laws.parameters import LawParameters
from foreword.models.synthetic import SyntheticModel
from foreword.protocol.messages import Advance, DraftKeys, DraftOpen, OneHot, TargetAddress, Tokens
from foreword.protocol.words import Drafter as Kind
from foreword.protocol.words import Rule
from foreword.testing.synthetic import Side, SyntheticRunner
from foreword.values import replace
from tests.contract.tiny_llama import tiny_llama

VOCABULARY = 40
TEXT = (5, 6, 7, 8, 5, 6, 7, 9, 5, 6, 7)
GREEDY, WARM = LawParameters(temperature=0.0), LawParameters(temperature=0.9)


def lookup() -> Drafter:
    return LookupDrafter(LookupStyle(shortest=1))


def synthetic() -> ModelDrafter:
    model = SyntheticModel(vocabulary=VOCABULARY, step_ms=0.0, context=200)
    abilities = Abilities(Kind.SYNTHETIC, model.context, model.vocabulary, None)
    return ModelDrafter(SyntheticRunner(model, side=Side.DRAFT), abilities, Style())


def mixed() -> Drafter:
    return MixedDrafter(LookupStyle(shortest=2), synthetic(), lambda: 0)


def real() -> Drafter:
    pytest.importorskip("torch")
    from foreword.runner.budget import CacheBudget
    from foreword.runner.real import real_runner

    module = tiny_llama(vocabulary=VOCABULARY, longest=200)
    runner = real_runner(module, vocabulary_size=VOCABULARY, longest_context=200, budget=CacheBudget(4000))
    return ModelDrafter(runner, Abilities(Kind.MODEL, 200, VOCABULARY, None), Style())


@pytest.fixture(params=[lookup, synthetic, mixed, real], ids=lambda make: make.__name__)
def make(request: pytest.FixtureRequest) -> Callable[[], Drafter]:
    """Return a function that makes an empty drafter; two of them draft the same."""
    return request.param


def drafting(
    tokens: Tokens, *, rule: Rule = Rule.MATCH, law: LawParameters = GREEDY, gamma: int = 4, cached: int = 0
) -> Session:
    keys = DraftKeys(b"d" * 16, b"m" * 16)
    message = DraftOpen(1, tokens, 1, law, keys, TargetAddress("t", "T", bytes(16)), 16)
    session = transitions.opened(message, Bounds(200, 16, Kind.MODEL))
    session, _ = transitions.prefilled(replace(session, cached=cached))
    base, digest = session.sequence.base, session.sequence.digest
    session, _ = transitions.advanced(session, Advance(1, 1, base, (), digest, rule, gamma))
    return session


def block(drafter: Drafter, slot: int, session: Session) -> Pen:
    pen = Pen(slot, session)
    while True:
        (drawn,) = drafter.step([pen], [])
        assert not isinstance(drawn, ForewordError)
        if pen.add(drawn):
            return pen


@pytest.mark.parametrize("rule", Rule)
@pytest.mark.parametrize("law", [GREEDY, WARM])
def test_candidates_are_ids_and_laws_are_laws(make: Callable[[], Drafter], rule: Rule, law: LawParameters) -> None:
    drafter = make()
    drafter.open(3)
    pen = block(drafter, 3, drafting(TEXT, rule=rule, law=law))
    _, drawn = pen.gathered(complete=True)
    assert 1 <= len(drawn.ids) <= 4
    assert all(0 <= token < VOCABULARY for token in drawn.ids)
    if drawn.laws is not None:
        assert rule is not Rule.MATCH
        validate_block(drawn.laws, drawn.ids, VOCABULARY)


def test_the_same_context_drafts_the_same_block(make: Callable[[], Drafter]) -> None:
    blocks = []
    for _ in range(2):
        drafter = make()
        drafter.open(0)
        blocks.append(block(drafter, 0, drafting(TEXT, rule=Rule.BLOCK, law=WARM)).gathered(complete=True))
    assert blocks[0] == blocks[1]


@pytest.mark.parametrize("size", [1, 3, 100])
def test_reading_in_chunks_is_reading(make: Callable[[], Drafter], size: int) -> None:
    drafter, fresh = make(), make()
    drafter.open(0)
    fresh.open(0)
    head = TEXT[:-1]
    for start in range(0, len(head), size):
        assert drafter.step([], [ReadJob(0, Read(start, head[start : start + size]))]) == []
    assert drafter.resident_tokens == len(head)
    assert block(drafter, 0, drafting(TEXT, cached=len(head))).ids == block(fresh, 0, drafting(TEXT)).ids


@pytest.mark.parametrize("kept", [0, 2, 4])
def test_rollback_is_cutting_back(make: Callable[[], Drafter], kept: int) -> None:
    drafter, fresh = make(), make()
    drafter.open(0)
    fresh.open(0)
    pen = block(drafter, 0, drafting(TEXT))
    after = (*TEXT, *pen.ids[:kept], 5)
    cached = min(pen.cached, len(TEXT) + kept)
    assert block(drafter, 0, drafting(after, cached=cached)).ids == block(fresh, 0, drafting(after)).ids


def test_what_is_remembered_of_blocks_leaves_the_next_ones_lawful(make: Callable[[], Drafter]) -> None:
    """Whatever came where blocks had been drawn: all of a block, a part, or nothing, or after a cut far back."""
    drafter = make()
    drafter.open(0)
    text, cached = TEXT, 0
    for round in range(1, 25):
        session = drafting(text, rule=Rule.BLOCK, law=WARM, cached=cached)
        pen = block(drafter, 0, session)
        _, drawn = pen.gathered(complete=True)
        validate_block(drawn.laws or OneHot(), drawn.ids, VOCABULARY)
        assert (drawn.laws is None) is (drawn.drafter is Kind.LOOKUP)
        kept = round % (len(drawn.ids) + 1)
        cached = min(pen.cached, len(text) + kept)
        text = (*text, *drawn.ids[:kept], round % 4)
        if round % 7 == 0:
            text, cached = text[:6], min(cached, 3)


def test_slots_do_not_disturb_each_other(make: Callable[[], Drafter]) -> None:
    drafter, alone = make(), make()
    for slot in (0, 1, 2):
        drafter.open(slot)
    alone.open(0)
    pens = [Pen(0, drafting(TEXT, gamma=1)), Pen(1, drafting(TEXT[2:], gamma=1))]
    both = drafter.step(pens, [ReadJob(2, Read(0, TEXT[:4]))])
    drafter.close(1)
    (one,) = alone.step([Pen(0, drafting(TEXT, gamma=1))], [])
    assert both[0] == one
    assert block(drafter, 2, drafting(TEXT, cached=4)).ids == block(alone, 0, drafting(TEXT)).ids


def test_guesses_are_those_that_it_would_draft(make: Callable[[], Drafter]) -> None:
    drafter, fresh = make(), make()
    drafter.open(0)
    wanted = 0
    for end in range(len(TEXT) - 6, len(TEXT)):
        fresh.open(end)
        ids = block(fresh, end, drafting(TEXT[:end], gamma=1)).ids
        wanted += ids == TEXT[end : end + 1]
    work = Compare(0, TEXT[:-1], TEXT[-6:], position=len(TEXT) - 7)
    assert drafter.compare([CompareJob(0, drafting(TEXT), work)]) == [wanted]
    assert drafter.resident_tokens == len(TEXT) - 1
    fresh.open(0)
    after = drafting(TEXT, cached=len(TEXT) - 1)
    assert block(drafter, 0, after).ids == block(fresh, 0, drafting(TEXT)).ids


def test_costs_are_measured_and_nothing_is_left(make: Callable[[], Drafter]) -> None:
    drafter = make()
    points = measure_costs(drafter)
    assert [point.rows for point in points] == list(SESSIONS)
    assert all(point.step_us >= 0 for point in points)
    assert drafter.resident_tokens == 0
    drafter.open(0)


LONG = tuple(i * 7 % VOCABULARY for i in range(60))


def test_a_session_may_begin_with_what_another_has_read(make: Callable[[], Drafter]) -> None:
    """What is adopted drafts as what was read; a drafter may adopt nothing."""
    drafter, fresh = make(), make()
    for slot in (0, 1):
        drafter.open(slot, salt=b"ours")
    assert drafter.adopt(0, LONG) == 0
    block(drafter, 0, drafting(LONG))
    adopted = drafter.adopt(1, LONG)
    assert 0 <= adopted < len(LONG)
    fresh.open(0)
    session = drafting((*LONG, 5), cached=adopted)
    assert block(drafter, 1, session).ids == block(fresh, 0, drafting((*LONG, 5))).ids


def test_sessions_of_another_salt_share_nothing(make: Callable[[], Drafter]) -> None:
    drafter = make()
    drafter.open(0, salt=b"ours")
    block(drafter, 0, drafting(LONG))
    drafter.open(1, salt=b"theirs")
    assert drafter.adopt(1, LONG) == 0


def test_what_a_session_rolled_back_is_adopted_by_nobody(make: Callable[[], Drafter]) -> None:
    """Candidates are in the cache beside the text; another session begins with the text alone."""
    drafter, fresh = make(), make()
    for slot in (0, 1):
        drafter.open(slot)
    pen = block(drafter, 0, drafting(LONG, gamma=16))
    adopted = drafter.adopt(1, (*LONG, *pen.ids, 3))
    assert adopted < len(LONG)
    fresh.open(0)
    after = (*LONG, 9, 8, 7)
    drafter.close(1)
    drafter.open(1)
    adopted = drafter.adopt(1, after)
    assert block(drafter, 1, drafting(after, cached=adopted)).ids == block(fresh, 0, drafting(after)).ids
