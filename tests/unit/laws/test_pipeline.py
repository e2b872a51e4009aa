"""From logits to laws: against a loop, row by row, and at the edges."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from foreword.errors import EngineFailure, ForewordError, InvalidField
from foreword.laws.law import Law
from foreword.laws.parameters import LawParameters
from foreword.laws.pipeline import LawRows, target_laws, try_target_laws
from tests.unit.laws import reference

V = 9
tokens = st.integers(0, V - 1)
values = st.one_of(st.integers(-8, 8).map(lambda x: x / 2), st.floats(-30, 30, width=32))
parameters = st.builds(
    LawParameters,
    temperature=st.sampled_from([0.0, 0.3, 0.7, 1.0, 1.9]),
    top_k=st.none() | st.integers(1, V + 2),
    top_p=st.none() | st.sampled_from([0.05, 0.31, 0.5, 0.77, 0.95, 1.0]),
    min_p=st.none() | st.sampled_from([0.0, 0.013, 0.1, 0.4, 1.0]),
    repetition_penalty=st.sampled_from([1.0, 1.05, 1.3, 0.8]),
    presence_penalty=st.sampled_from([0.0, 0.0, 0.6, -0.5]),
    frequency_penalty=st.sampled_from([0.0, 0.0, 0.35]),
    bias=st.lists(st.tuples(tokens, st.sampled_from([-100.0, -1.5, 0.25, 3.0])), max_size=4).map(tuple),
    banned_ids=st.sets(tokens, max_size=2).map(tuple),
    stop_ids=st.sets(tokens, max_size=2).map(tuple),
    min_tokens=st.integers(0, 5),
)


@st.composite
def sessions(draw: st.DrawFn) -> LawRows:
    candidates = draw(st.lists(tokens, max_size=3))
    output = draw(st.lists(tokens, max_size=4))
    rows = draw(st.integers(1, len(candidates) + 1))
    logits = draw(st.lists(st.lists(values, min_size=V, max_size=V), min_size=rows, max_size=rows))
    return LawRows(
        draw(parameters),
        np.array(logits, dtype=np.float32),
        prompt=draw(st.lists(tokens, max_size=4)),
        output=output,
        candidates=candidates,
        first_position=len(output),
    )


def same(a: Law, b: Law) -> bool:
    """Whether two laws are equal bit for bit."""
    ids = (a.ids is None) == (b.ids is None) and (a.ids is None or np.array_equal(a.ids, b.ids))
    return ids and np.array_equal(a.probabilities, b.probabilities)


@settings(deadline=None, derandomize=True, max_examples=150)
@given(sessions())
def test_every_law_is_that_of_a_plain_loop(rows: LawRows) -> None:
    for i, law in enumerate(target_laws([rows])[0]):
        before = [*rows.output, *rows.candidates[:i]]
        expected = reference.law(rows.parameters, rows.logits[i].tolist(), prompt=rows.prompt, output=before)
        seen = reference.as_dict(law)
        assert seen.keys() == {t for t, p in expected.items() if p > 0.0}
        assert all(math.isclose(seen[t], expected[t], rel_tol=1e-9, abs_tol=1e-300) for t in seen)
        assert law.ids is None or (np.diff(law.ids) > 0).all()
        assert math.isclose(law.probabilities.sum(), 1.0, rel_tol=1e-12)


@settings(deadline=None, derandomize=True)
@given(st.lists(sessions(), max_size=4))
def test_ragged_rows_equal_rows_one_by_one_bit_for_bit(batch: list[LawRows]) -> None:
    together = target_laws(batch)
    for rows, laws in zip(batch, together, strict=True):
        for i, law in enumerate(laws):
            alone = LawRows(
                rows.parameters,
                rows.logits[i : i + 1],
                prompt=np.array(rows.prompt, dtype=np.int32),
                output=np.array([*rows.output, *rows.candidates[:i]], dtype=np.int32),
                first_position=rows.first_position + i,
            )
            assert same(law, target_laws([alone])[0][0])


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("extra", [{}, {"top_p": 0.9}, {"top_k": 40}, {"repetition_penalty": 1.2}])
def test_large_rows_equal_rows_one_by_one_bit_for_bit(temperature: float, extra: dict[str, float]) -> None:
    logits = np.random.default_rng(0).standard_normal((4, 20_011)).astype(np.float32) * 3
    given_parameters = LawParameters(temperature=temperature, **extra)  # type: ignore[arg-type]
    laws = target_laws([LawRows(given_parameters, logits, candidates=(1, 2, 3))])[0]
    for i, law in enumerate(laws):
        output = (1, 2, 3)[:i]
        alone = LawRows(given_parameters, logits[i : i + 1], output=output, first_position=i)
        assert same(law, target_laws([alone])[0][0])


def test_logits_are_left_as_they_were() -> None:
    logits = np.ones((2, V), dtype=np.float32)
    logits.setflags(write=False)
    everything = LawParameters(
        temperature=0.5,
        top_p=0.5,
        repetition_penalty=2.0,
        bias=((1, 1.0),),
        banned_ids=(2,),
        stop_ids=(3,),
        min_tokens=9,
    )
    target_laws([LawRows(everything, logits, prompt=(1,), output=(4,), candidates=(5,), first_position=1)])
    assert (logits == 1.0).all()


def test_temperature_0_takes_the_lowest_of_equal_ids() -> None:
    logits = np.array([[1.0, 5.0, 5.0, 5.0]], dtype=np.float32)
    law = target_laws([LawRows(LawParameters(temperature=0.0), logits)])[0][0]
    assert reference.as_dict(law) == {1: 1.0}
    penalized = LawParameters(temperature=0.0, presence_penalty=1.0)
    rows = LawRows(penalized, np.repeat(logits, 3, axis=0), candidates=(1, 2))
    assert [law.best for law in target_laws([rows])[0]] == [1, 2, 3]


def test_top_k_keeps_exactly_k_and_the_lowest_of_equal_ids() -> None:
    logits = np.array([[0.0, 2.0, 2.0, 3.0, 2.0]], dtype=np.float32)
    assert reference.as_dict(target_laws([LawRows(LawParameters(top_k=3), logits)])[0][0]).keys() == {1, 2, 3}


def test_top_p_keeps_the_fewest_that_reach_it() -> None:
    logits = np.zeros((1, 4), dtype=np.float32)
    for top_p, kept in ((0.25, 1), (0.26, 2), (0.5, 2), (0.75, 3), (0.76, 4), (1.0, 4)):
        law = target_laws([LawRows(LawParameters(top_p=top_p), logits)])[0][0]
        assert reference.as_dict(law).keys() == set(range(kept))


def test_each_filter_renormalizes_before_the_next() -> None:
    # 0.5, 0.3, 0.2: with two kept, 0.5 is 0.625 of what is left, over the 0.6 that top-p asks for.
    logits = np.log(np.array([[0.5, 0.3, 0.2]], dtype=np.float32))
    assert target_laws([LawRows(LawParameters(top_k=2, top_p=0.6), logits)])[0][0].size == 1
    assert target_laws([LawRows(LawParameters(min_p=0.5, top_p=0.6), logits)])[0][0].size == 1
    assert target_laws([LawRows(LawParameters(top_p=0.6), logits)])[0][0].size == 2


def test_penalties_count_the_candidates_before() -> None:
    logits = np.zeros((3, 3), dtype=np.float32)
    rows = LawRows(LawParameters(frequency_penalty=1.0), logits, output=(0,), candidates=(0, 1), first_position=1)
    weights = [np.exp([-1.0, 0.0, 0.0]), np.exp([-2.0, 0.0, 0.0]), np.exp([-2.0, -1.0, 0.0])]
    for law, weight in zip(target_laws([rows])[0], weights, strict=True):
        assert np.allclose(law.probabilities, weight / weight.sum(), rtol=1e-7)


def test_stop_ids_are_barred_until_the_minimum_is_out() -> None:
    logits = np.zeros((4, 3), dtype=np.float32)
    rows = LawRows(LawParameters(stop_ids=(2,), min_tokens=5), logits, candidates=(0, 0, 0), first_position=3)
    assert [law.probability_of(2) > 0 for law in target_laws([rows])[0]] == [False, False, True, True]


@pytest.mark.parametrize("extra", [{}, {"top_p": 0.9}, {"top_k": 8}, {"min_p": 0.01}, {"temperature": 0.0}])
def test_padding_never_has_mass(extra: dict[str, float]) -> None:
    logits = np.zeros((1, 8), dtype=np.float32)
    logits[0, 5:] = 100.0
    logits[0, 7] = math.nan
    law = target_laws([LawRows(LawParameters(**extra), logits, vocabulary_size=5)])[0][0]  # type: ignore[arg-type]
    assert law.support.max() < 5


@pytest.mark.parametrize("temperature", [1e-300, 1e-45, 1e-7, 1e-3, 100.0])
@pytest.mark.parametrize("extra", [{}, {"top_p": 0.9}, {"top_k": 2}, {"min_p": 0.1}])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_extreme_temperatures_and_logits(temperature: float, extra: dict[str, float], scale: float) -> None:
    logits = np.array([[-3.0, 2.0, 3.0, -math.inf]], dtype=np.float32) * np.float32(scale)
    chosen = LawParameters(temperature=temperature, **extra)  # type: ignore[arg-type]
    law = target_laws([LawRows(chosen, logits)])[0][0]
    assert np.isfinite(law.probabilities).all()
    assert math.isclose(law.probabilities.sum(), 1.0, rel_tol=1e-12)
    assert law.best == 2 or math.isclose(law.probability_of(1), law.probability_of(2))
    assert law.probability_of(3) == 0.0


def test_what_underflows_is_as_good_as_greedy() -> None:
    logits = np.array([[1.0, 1.5, 1.5]], dtype=np.float32)
    law = target_laws([LawRows(LawParameters(temperature=1e-9), logits)])[0][0]
    assert law.probabilities.tolist() == [0.0, 0.5, 0.5]


@pytest.mark.parametrize("extra", [{}, {"top_p": 0.9}, {"temperature": 0.0}])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_broken_forward_pass_is_named_and_costs_one_session(bad: float, extra: dict[str, float]) -> None:
    logits = np.zeros((2, V), dtype=np.float32)
    logits[1, 4 if bad != -math.inf else slice(None)] = bad
    chosen = LawParameters(**extra)  # type: ignore[arg-type]
    good = LawRows(chosen, np.zeros((1, V), dtype=np.float32))
    broken = LawRows(chosen, logits, candidates=(0,), first_position=7)
    first, second, third = try_target_laws([good, broken, good])
    assert isinstance(second, EngineFailure)
    assert "session 1 of the step, row 1 (output position 8)" in str(second)
    assert not isinstance(first, ForewordError)
    assert not isinstance(third, ForewordError)
    assert same(first[0], third[0])
    with pytest.raises(EngineFailure, match="wanted finite numbers"):
        target_laws([good, broken])


@pytest.mark.parametrize("extra", [{}, {"top_p": 0.9}, {"temperature": 0.0}])
def test_nothing_left_to_come_is_the_requests_fault(extra: dict[str, float]) -> None:
    chosen = LawParameters(banned_ids=(0, 1, 2), **extra)  # type: ignore[arg-type]
    with pytest.raises(InvalidField, match="no token left at output position 4"):
        target_laws([LawRows(chosen, np.zeros((1, 3), dtype=np.float32), first_position=4)])


def test_no_rows() -> None:
    assert target_laws([]) == []
    assert target_laws([LawRows(LawParameters(), np.zeros((0, 4), dtype=np.float32))]) == [[]]


@pytest.mark.parametrize(
    ("shape", "candidates", "size", "field"),
    [
        ((3, 4), (1,), None, "logits"),
        ((4,), (), None, "logits"),
        ((1, 4), (), 5, "vocabulary_size"),
        ((1, 4), (), 0, "vocabulary_size"),
        ((1, 4), (4,), None, "candidates"),
        ((1, 4), (-1,), None, "candidates"),
    ],
)
def test_shapes_that_do_not_fit(
    shape: tuple[int, ...], candidates: tuple[int, ...], size: int | None, field: str
) -> None:
    with pytest.raises(InvalidField, match=f"^{field}: got"):
        LawRows(LawParameters(), np.zeros(shape, dtype=np.float32), candidates=candidates, vocabulary_size=size)


@pytest.mark.parametrize("where", ["prompt", "output"])
@pytest.mark.parametrize("token", [-1, V])
def test_tokens_out_of_range_are_refused(where: str, token: int) -> None:
    logits = np.zeros((1, V), dtype=np.float32)
    rows = LawRows(LawParameters(repetition_penalty=1.1), logits, **{where: (token,)})  # type: ignore[arg-type]
    with pytest.raises(InvalidField, match=f"{where}: got {token}"):
        target_laws([rows])


class Alternating:
    """A grammar: after token t only t + 1 may come; it refuses to be asked about anything else."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.asked: list[list[int]] = []

    def allowed(self, output: Sequence[int]) -> NDArray[np.bool_] | None:
        self.asked.append(list(output))
        assert all(b == a + 1 for a, b in itertools.pairwise(output)), "asked about an impossible text"
        if not output:
            return None
        mask = np.zeros(self.size, dtype=bool)
        mask[output[-1] + 1] = True
        return mask


def test_a_mask_holds_at_every_position_that_can_be_reached() -> None:
    mask = Alternating(V)
    logits = np.zeros((4, V), dtype=np.float32)
    rows = LawRows(LawParameters(), logits, output=(1,), candidates=(2, 5, 6), first_position=1, mask=mask)
    laws = target_laws([rows])[0]
    assert [reference.as_dict(law).keys() for law in laws[:2]] == [{2}, {3}]
    # 5 cannot come after 2: nobody asks what would follow, and those rows stay lawful.
    assert mask.asked == [[1], [1, 2]]
    assert all(math.isclose(law.probabilities.sum(), 1.0) for law in laws)


def test_a_mask_is_not_asked_what_follows_the_end() -> None:
    mask = Alternating(V)
    logits = np.zeros((2, V), dtype=np.float32)
    target_laws([LawRows(LawParameters(stop_ids=(2,)), logits, output=(1,), candidates=(2,), mask=mask)])
    assert mask.asked == [[1]]


def test_a_mask_that_is_too_short_is_refused() -> None:
    rows = LawRows(LawParameters(), np.zeros((1, V), dtype=np.float32), output=(0,), mask=Alternating(V - 1))
    with pytest.raises(InvalidField, match="mask: got '8 tokens', wanted one value for each of 9 tokens"):
        target_laws([rows])


@settings(deadline=None, derandomize=True)
@given(sessions())
def test_a_law_off_the_candidates_stays_a_law(rows: LawRows) -> None:
    assume(not rows.parameters.greedy)
    for law in target_laws([rows])[0]:
        assert law.probability_of(law.best) == law.probabilities.max()
