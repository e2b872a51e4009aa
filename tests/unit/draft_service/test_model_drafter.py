"""The model drafter: which tokens it draws, after which tokens, from which law."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from draft_service.core.reading import Compare, Read
from draft_service.core.state import Session
from draft_service.drafters.choosing import MatchDraw, Style
from draft_service.drafters.model import ModelDrafter
from draft_service.drafters.pen import Pen
from draft_service.drafters.port import Abilities, CompareJob, ReadJob
from foreword.addresses.keys import draft_address
from foreword.addresses.philox import first_integers
from foreword.errors import EngineFailure, ForewordError, InvalidField
from foreword.laws.counts import sample, to_counts
from foreword.laws.law import Law
from foreword.laws.parameters import LawParameters
from foreword.laws.pipeline import LawRows, target_laws
from foreword.laws.sampling import sample_match
from foreword.protocol.messages import Tokens
from foreword.protocol.words import Drafter, Rule
from foreword.runner.port import Logits, Rows
from foreword.testing.synthetic import Side, SyntheticRunner
from foreword.values import replace
from tests.unit.draft_service.kit import GREEDY
from tests.unit.draft_service.models import KEYS, MODEL, drafter, ordered, written

PROMPT = (3, 1, 4, 1, 5, 9, 2, 6)
WARM = LawParameters(temperature=0.8, top_p=0.95)


def logits_after(side: Side, tokens: Tokens, temperature: float) -> Logits:
    runner = SyntheticRunner(MODEL, side=side)
    runner.open(0)
    return runner.forward([Rows(0, tokens, 1, temperature)])[0]


def law_after(side: Side, tokens: Tokens, law: LawParameters) -> Law:
    return target_laws([LawRows(law, logits_after(side, tokens, law.temperature))])[0][0]


def test_greedy_blocks_are_the_models_own_greedy_text() -> None:
    ours = drafter()
    ours.open(0)
    pen = written(ours, 0, ordered(PROMPT, gamma=6))
    text = PROMPT
    for _ in range(6):
        text += (int(logits_after(Side.DRAFT, text, 0.0)[0].argmax()),)
    assert pen.ids == text[len(PROMPT) :]
    _, drawn = pen.gathered(complete=True)
    assert drawn.laws is None


def test_coupled_blocks_are_the_targets_own_text_when_draft_and_target_are_one_model() -> None:
    ours = drafter(side=Side.TARGET)
    ours.open(0)
    pen = written(ours, 0, ordered(PROMPT, law=WARM, gamma=8))
    text = PROMPT
    for position in range(8):
        assert KEYS.match is not None
        text += (sample_match(law_after(Side.TARGET, text, WARM), KEYS.match, position),)
    assert pen.ids == text[len(PROMPT) :]


def test_a_block_with_counts_is_drawn_from_those_counts_at_its_own_addresses() -> None:
    ours = drafter(style=Style(total_bits=8, support_max=16))
    ours.open(0)
    session = ordered(PROMPT, law=WARM, rule=Rule.BLOCK, gamma=5, round=3)
    pen = written(ours, 0, session)
    _, drawn = pen.gathered(complete=True)
    assert drawn.laws is not None
    text = PROMPT
    for position, (token, counts) in enumerate(zip(drawn.ids, drawn.laws, strict=True)):
        assert counts == to_counts(law_after(Side.DRAFT, text, WARM), bits=8, cap=16)
        address = draft_address(session.sequence.digest, 3, position)
        assert token == sample(counts, int(first_integers(KEYS.draft, [address])[0]))
        text += (token,)


def test_another_round_or_other_assumed_tokens_have_other_numbers() -> None:
    law = LawParameters(temperature=5.0)
    blocks = set()
    for round, prompt in ((1, PROMPT), (2, PROMPT), (1, (*PROMPT[1:], 7))):
        ours = drafter()
        ours.open(0)
        blocks.add(written(ours, 0, ordered(prompt, law=law, rule=Rule.TOKEN, gamma=8, round=round)).ids)
    assert len(blocks) == 3


def test_a_batch_draws_what_each_session_draws_alone() -> None:
    sessions = [
        ordered(PROMPT, law=law, rule=rule, gamma=4)
        for law in (GREEDY, WARM, replace(WARM, repetition_penalty=1.3))
        for rule in Rule
    ]
    together = drafter()
    pens = []
    for slot, session in enumerate(sessions):
        together.open(slot)
        pens.append(Pen(slot, session))
    for _ in range(4):
        for pen, drawn in zip(pens, together.step(pens, []), strict=True):
            assert not isinstance(drawn, ForewordError)
            pen.add(drawn)
    for session, pen in zip(sessions, pens, strict=True):
        alone = drafter()
        alone.open(0)
        assert written(alone, 0, session).gathered(complete=True) == pen.gathered(complete=True)


def test_after_full_acceptance_the_cache_catches_up_to_what_a_fresh_session_has() -> None:
    ours, fresh = drafter(), drafter()
    ours.open(0)
    fresh.open(0)
    pen = written(ours, 0, ordered(PROMPT, gamma=4))
    after = (*PROMPT, *pen.ids, 17)
    kept = ordered(after, cached=pen.cached, output=5)
    assert Pen(0, kept).rows == after[-2:]  # the last candidate was never read, and the target's token follows it
    assert written(ours, 0, kept).ids == written(fresh, 0, ordered(after, output=5)).ids


@pytest.mark.parametrize("kept", [0, 1, 3])
def test_after_a_rejection_the_cache_is_cut_to_what_was_kept(kept: int) -> None:
    ours, fresh = drafter(), drafter()
    ours.open(0)
    fresh.open(0)
    pen = written(ours, 0, ordered(PROMPT, gamma=4))
    after = (*PROMPT, *pen.ids[:kept], 17)
    session = ordered(after, cached=len(PROMPT) + kept, output=kept + 1)
    assert written(ours, 0, session).ids == written(fresh, 0, ordered(after, output=kept + 1)).ids


def test_a_cache_that_is_not_cut_is_noticed() -> None:
    """The planted bug: the rejected candidate stays in the cache."""
    ours, fresh = drafter(), drafter()
    ours.open(0)
    fresh.open(0)
    pen = written(ours, 0, ordered(PROMPT, gamma=8))
    after = (*PROMPT, *pen.ids[:1], (pen.ids[1] + 1) % 32)
    stale = ordered(after, cached=len(PROMPT) + 2, output=2)
    stale = replace(stale, cached=len(PROMPT) + 2)
    with pytest.raises((AssertionError, InvalidField)):
        assert written(ours, 0, stale).ids == written(fresh, 0, ordered(after, output=2)).ids


def penalized_alone(session: Session, law: LawParameters, *, counting: bool) -> Tokens:
    """Draw greedily by asking the pipeline for every position from scratch; `counting` is whether drawn ones count."""
    prompt, output, drawn = PROMPT[:5], PROMPT[5:], ()
    for _ in range(6):
        logits = logits_after(Side.DRAFT, PROMPT + drawn, 0.0)
        counted = drawn if counting else ()
        rows = LawRows(law, logits, prompt=prompt, output=output + counted, first_position=3 + len(drawn))
        drawn += (target_laws([rows])[0][0].best,)
    return drawn


# Three ids lead all others, so that which comes next is for the penalties to say.
LEADING = replace(GREEDY, bias=((20, 60.0), (21, 60.0), (22, 60.0)))


@pytest.mark.parametrize(
    "law",
    [
        replace(LEADING, presence_penalty=2.0),
        replace(LEADING, frequency_penalty=2.0),
        replace(LEADING, repetition_penalty=2.0),
    ],
    ids=["presence", "frequency", "repetition"],
)
def test_penalties_count_the_candidates_before(law: LawParameters) -> None:
    ours = drafter()
    ours.open(0)
    session = ordered(PROMPT, law=law, gamma=6, output=3)
    ids = written(ours, 0, session).ids
    assert ids == penalized_alone(session, law, counting=True)
    assert ids != penalized_alone(session, law, counting=False)


def test_bans_and_minimum_length_hold_for_candidates() -> None:
    first = drafter()
    first.open(0)
    likeliest = written(first, 0, ordered(PROMPT, gamma=1)).ids[0]
    for law in (
        replace(GREEDY, banned_ids=(likeliest,)),
        replace(GREEDY, bias=((likeliest, -50.0),)),
        replace(GREEDY, stop_ids=(likeliest,), min_tokens=1),
    ):
        ours = drafter()
        ours.open(0)
        assert written(ours, 0, ordered(PROMPT, law=law, gamma=1)).ids != (likeliest,)


@pytest.mark.parametrize("law", [GREEDY, WARM, replace(WARM, banned_ids=(1,))])
@pytest.mark.parametrize("rule", Rule)
def test_padding_is_never_drawn_and_changes_nothing(law: LawParameters, rule: Rule) -> None:
    plain, padded = drafter(), drafter(padded=True)
    plain.open(0)
    padded.open(0)
    session = ordered(PROMPT, law=law, rule=rule, gamma=6)
    assert written(plain, 0, session).gathered(complete=True) == written(padded, 0, session).gathered(complete=True)


def test_reading_beside_drawing_changes_nothing() -> None:
    ours, fresh = drafter(), drafter()
    for slot in (0, 1):
        ours.open(slot)
    fresh.open(0)
    pen = Pen(0, ordered(PROMPT, gamma=2))
    (drawn,) = ours.step([pen], [ReadJob(1, Read(0, PROMPT[:4]))])
    assert isinstance(drawn, type(fresh.step([Pen(0, pen.session)], [])[0]))
    ours.step([], [ReadJob(1, Read(4, PROMPT[4:-1]))])
    assert ours.resident_tokens == len(PROMPT) + len(PROMPT) - 1
    second = written(ours, 1, ordered(PROMPT, cached=len(PROMPT) - 1, gamma=3))
    alone = drafter()
    alone.open(0)
    assert second.ids == written(alone, 0, ordered(PROMPT, gamma=3)).ids


class Spoiled:
    """A runner whose first row is not what it should be."""

    def __init__(self, runner: SyntheticRunner, value: float) -> None:
        self._runner = runner
        self._value = value

    def __getattr__(self, name: str) -> object:
        return getattr(self._runner, name)

    def forward(self, batch: Sequence[Rows]) -> list[Logits]:
        logits = self._runner.forward(batch)
        logits[0][0, 3] = self._value
        return logits


@pytest.mark.parametrize("law", [GREEDY, WARM])
def test_logits_that_are_no_numbers_cost_their_session_only(law: LawParameters) -> None:
    runner = Spoiled(SyntheticRunner(MODEL, side=Side.DRAFT), math.nan)
    ours = ModelDrafter(runner, Abilities(Drafter.SYNTHETIC, 256, 32, None), Style())  # type: ignore[arg-type]
    for slot in (0, 1):
        ours.open(slot)
    bad, good = ours.step([Pen(slot, ordered(PROMPT, law=law)) for slot in (0, 1)], [])
    assert isinstance(bad, EngineFailure)
    assert not isinstance(good, ForewordError)


def test_a_threshold_stops_uncertain_blocks() -> None:
    for rule in Rule:
        for law in (GREEDY, WARM):
            ours = drafter()
            ours.open(0)
            assert len(written(ours, 0, ordered(PROMPT, law=law, rule=rule, gamma=16, stop_threshold=0.9)).ids) < 16
    sampled = drafter(style=Style(match_draw=MatchDraw.SAMPLED))
    sampled.open(0)
    assert len(written(sampled, 0, ordered(PROMPT, law=WARM, gamma=16, stop_threshold=0.9)).ids) < 16


@pytest.mark.parametrize("match_draw", MatchDraw)
@pytest.mark.parametrize("law", [GREEDY, WARM])
def test_guesses_are_compared_with_what_came(match_draw: MatchDraw, law: LawParameters) -> None:
    ours = drafter(style=Style(match_draw=match_draw))
    came = (*PROMPT, 8, 8)
    text = PROMPT
    ours.open(0)
    session = ordered(PROMPT, law=law, output=4)
    greedy = law.greedy or match_draw is not MatchDraw.COUPLED
    guess = replace(law, temperature=0.0) if greedy else law
    wanted = 0
    for i, token in enumerate(came[6:]):
        own = law_after(Side.DRAFT, came[: 6 + i], guess)
        assert KEYS.match is not None
        best = own.best if greedy else sample_match(own, KEYS.match, 2 + i)
        wanted += best == token
    work = Compare(0, came[:-1], came[6:], position=2)
    assert ours.compare([CompareJob(0, session, work)]) == [wanted]
    assert ours.resident_tokens == len(came) - 1
    assert text == PROMPT


def test_guesses_agree_always_when_draft_and_target_are_one_model() -> None:
    ours = drafter(side=Side.TARGET)
    ours.open(0)
    text = PROMPT
    for position in range(8):
        assert KEYS.match is not None
        text += (sample_match(law_after(Side.TARGET, text, WARM), KEYS.match, position),)
    session = ordered(text, law=WARM, output=8)
    work = Compare(0, text[:-1], text[len(PROMPT) :], position=0)
    assert ours.compare([CompareJob(0, session, work)]) == [8]


def test_slots_are_freed() -> None:
    ours = drafter()
    ours.open(0)
    written(ours, 0, ordered(PROMPT))
    ours.close(0)
    ours.open(0)
    assert ours.resident_tokens == 0
    assert np.isfinite(written(ours, 0, ordered(PROMPT)).ids).all()
