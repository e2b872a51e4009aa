"""The pure parts of the exactness study: the chi-square test holds its level and sees what is planted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from foreword.laws.parameters import LawParameters
from foreword.models.synthetic import SyntheticModel
from foreword.protocol.digest import EMPTY, extend
from foreword.protocol.generation import Choice, Finish, Usage
from foreword.protocol.words import FinishReason, TokenSource
from foreword.testing.synthetic_laws import SyntheticLaws
from loadtest.exactness.comparison import Comparison, Tally, Verdict, first_difference, unexplained
from loadtest.exactness.sampled import PROMPT, judge
from loadtest.exactness.score import ScoreTest, by_rank, survival

MODEL = SyntheticModel(vocabulary=8, seed=3, step_ms=0.0)
LAW = LawParameters(temperature=1.5)


@pytest.mark.parametrize("degrees", [1, 2, 3, 8, 51, 400])
@pytest.mark.parametrize("share", [0.1, 0.9, 1.3, 2.0])
def test_survival_is_that_of_scipy(degrees: int, share: float) -> None:
    assert survival(share * degrees, degrees) == pytest.approx(stats.chi2.sf(share * degrees, degrees), rel=1e-9)


def test_survival_of_nothing_is_certain() -> None:
    assert survival(0.0, 3) == survival(5.0, 0) == 1.0


def p_values(bias: float, *, runs: int, tokens: int) -> list[float]:
    rng = np.random.default_rng(1)
    found = []
    for _ in range(runs):
        test = ScoreTest()
        for position in range(tokens):
            law = rng.dirichlet(np.ones(5))
            drawn = law * np.where(np.arange(5) == law.argmax(), 1.0 + bias, 1.0)
            test.add(position % 3, *by_rank(law, int(rng.choice(5, p=drawn / drawn.sum()))))
        found.append(test.p_value)
    return found


def test_p_values_are_uniform_where_the_law_holds() -> None:
    assert stats.kstest(p_values(0.0, runs=100, tokens=200), "uniform").pvalue > 1e-4


def test_a_law_that_is_off_by_a_little_is_seen_with_enough_tokens() -> None:
    assert max(p_values(0.3, runs=2, tokens=6000)) < 1e-6


def test_one_impossible_token_refutes() -> None:
    test = ScoreTest()
    test.add(0, np.array([0.5, 0.5, 0.0, 0.0]), 2)
    assert test.p_value == 0.0
    assert ScoreTest().p_value == 1.0


def texts(rng: np.random.Generator, *, repeats: float) -> list[Choice]:
    """Sample texts; with probability `repeats` a token that a draft would have written is the one before."""
    laws, made = SyntheticLaws(MODEL), []
    for _ in range(40):
        ids: tuple[int, ...] = ()
        sources: tuple[TokenSource, ...] = ()
        for _ in range(40):
            digest = np.array([extend(extend(EMPTY, PROMPT), ids)], dtype=np.uint64)
            p = np.exp(laws.target(digest)[0].astype(np.float64) / LAW.temperature)
            p /= p.sum()
            kept = rng.random() < 0.5
            token = int(p.argmax()) if kept and rng.random() < repeats else int(rng.choice(8, p=p))
            ids, sources = (*ids, token), (*sources, TokenSource.DRAFT if kept else TokenSource.TARGET)
        made.append(Choice(0, "", ids, sources, None, Finish(0, FinishReason.LENGTH, usage=Usage(verifications=1))))
    return made


def test_texts_of_the_model_pass_and_texts_that_favour_its_likeliest_token_do_not() -> None:
    honest = judge(MODEL, LAW, texts(np.random.default_rng(2), repeats=0.0))
    assert honest.p_value > 1e-3
    assert (honest.tokens, honest.verifications) == (1600, 40)
    assert judge(MODEL, LAW, texts(np.random.default_rng(2), repeats=0.8)).p_value < 1e-6


def test_where_two_outputs_part() -> None:
    assert first_difference((1, 2), (1, 2)) is None
    assert first_difference((1, 2), (1, 3)) == 1
    assert first_difference((1, 2), (1, 2, 3)) == 2
    assert first_difference((), (1,)) == 0


def test_a_difference_is_explained_only_below_the_tolerance() -> None:
    near = Comparison("x", 3, 1, 2e-5, 1e-4)
    far = replace(near, margin=2e-3)
    unknown, equal = replace(near, margin=None), replace(near, parted_at=None)
    verdicts = [one.verdict for one in (near, far, unknown, equal)]
    assert verdicts == [Verdict.NEAR_TIE, Verdict.DIFFERENT, Verdict.DIFFERENT, Verdict.EQUAL]
    tally = Tally("arm", (near, far, unknown, equal), (Usage(verifications=2, accepted_tokens=3, drafts_used=2),))
    assert unexplained([tally]) == [far, unknown]
    facts = tally.json()
    assert {name: facts[name] for name in ("texts", "tokens", "equal", "near_tie", "different")} == {
        "texts": 4,
        "tokens": 6,
        "equal": 1,
        "near_tie": 1,
        "different": 2,
    }
    assert (facts["verifications"], facts["accepted"], facts["took_another_draft"]) == (2, 3, 1)
