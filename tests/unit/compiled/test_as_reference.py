"""Compiled laws, evidence and tokens are those of the code on numpy, up to last bits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from foreword.acceptance import Evidence, gather, plain
from foreword.addresses import Address
from foreword.addresses.philox import integers
from foreword.compiled import law, laws, philox, races, source
from foreword.compiled.laws import try_compiled_laws
from foreword.compiled.source import CompiledSource
from foreword.errors import ForewordError
from foreword.laws.law import TargetLaw
from foreword.laws.parameters import LawParameters
from foreword.laws.pipeline import LawRows, try_target_laws
from foreword.protocol.words import Rule
from target_service.engine.arithmetic import REFERENCE as NUMPY
from target_service.engine.arithmetic import Arithmetic, arithmetic_for
from target_service.engine.judge import judge
from tests.unit.compiled.blocks import COMPILED, KEYS, LAWS, REFERENCE, ROWS, SIZES, drawn_block, logits_of, one_hot
from tests.unit.target_service.test_greedy import drawn_part

CLOSE = {"rel_tol": 1e-12, "abs_tol": 1e-300}


def session(name: str, seed: int, parameters: LawParameters, *, size: int, rows: int = 4, padding: int = 0) -> LawRows:
    logits = logits_of(name, seed, rows, size + padding)
    rng = np.random.default_rng(seed)
    output = tuple(int(t) for t in rng.integers(0, size, 3))
    blank = LawRows(parameters, logits, output, output, (0,) * (rows - 1), 3, vocabulary_size=size)
    ids = one_hot(blank, seed)[0]
    return replace(blank, candidates=ids)


def assert_same_law(found: TargetLaw, wanted: TargetLaw) -> None:
    p, q = found.probabilities, wanted.probabilities
    assert found.support.tolist() == wanted.support.tolist()
    assert found.size == wanted.size
    np.testing.assert_allclose(p, q, rtol=1e-12, atol=1e-300)
    assert math.isclose(p.sum(), 1.0, rel_tol=1e-12)
    for token in {0, 1, int(found.support[-1]), int(wanted.support[q.argmax()]), -1, 10**9}:
        assert math.isclose(found.probability_of(token), wanted.probability_of(token), **CLOSE)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ROWS)
def test_laws_are_those_of_the_reference(name: str, size: int) -> None:
    batch = [session(name, seed, one, size=size, padding=seed % 3) for seed, one in enumerate(LAWS)]
    for found, wanted, rows in zip(try_compiled_laws(batch), try_target_laws(batch), batch, strict=True):
        if isinstance(wanted, ForewordError):
            assert isinstance(found, ForewordError)
            assert (type(found), found.message) == (type(wanted), wanted.message), rows.parameters
            continue
        assert not isinstance(found, ForewordError), rows.parameters
        for one, other in zip(found, wanted, strict=True):
            assert_same_law(one, other)


def evidence(way, rows: LawRows, rule: Rule, block, *, round: int) -> Evidence | str:  # type: ignore[no-untyped-def]
    (found,) = way[0]([rows])
    if isinstance(found, ForewordError):
        return found.message
    return gather(rule, found, rows.candidates, block, keys=KEYS, round=round, base=2, source=way[1])


def assert_same_evidence(found: Evidence | str, wanted: Evidence | str) -> None:
    if isinstance(wanted, str) or isinstance(found, str):
        assert found == wanted
        return
    assert found.emit == wanted.emit
    for some, others in ((found.acceptance, wanted.acceptance), (found.ratios or (), wanted.ratios or ())):
        assert all(math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) for a, b in zip(some, others, strict=True))


@pytest.mark.parametrize("rule", Rule)
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("draw", [drawn_block, one_hot])
def test_evidence_is_that_of_the_reference(rule: Rule, name: str, draw) -> None:  # type: ignore[no-untyped-def]
    for seed, parameters in enumerate(LAWS):
        rows = session(name, seed, parameters, size=SIZES[1 + seed % 3], padding=seed % 2)
        ids, block = draw(rows, seed)
        rows = replace(rows, candidates=ids)
        assert_same_evidence(*(evidence(way, rows, rule, block, round=seed) for way in (COMPILED, REFERENCE)))


@pytest.mark.parametrize("rule", [Rule.MATCH, Rule.BLOCK])
@pytest.mark.parametrize("spread", [0.0, 0.5, 2.0, 5.0])
def test_tokens_are_those_of_the_reference_over_a_real_vocabulary(rule: Rule, spread: float) -> None:
    for seed, parameters in enumerate((LAWS[0], LAWS[1], LAWS[5])):
        logits = np.random.default_rng(seed).standard_normal((12, 49_152)).astype(np.float32) * np.float32(spread)
        for round in range(3):
            tokens = []
            for way, numbers in (COMPILED, REFERENCE):
                (found,) = way([LawRows(parameters, logits, candidates=(0,) * 11)])
                assert not isinstance(found, ForewordError)
                tokens.append(
                    [plain(rule, p, keys=KEYS, round=round, position=i, source=numbers) for i, p in enumerate(found)]
                )
            assert tokens[0] == tokens[1]


def test_a_law_does_not_depend_on_what_is_beside_it() -> None:
    batch = [session(name, 3, one, size=700, padding=1) for name in ("peaked", "flat", "narrow") for one in LAWS]
    for together, rows in zip(try_compiled_laws(batch), batch, strict=True):
        (alone,) = try_compiled_laws([rows])
        assert not isinstance(together, ForewordError)
        assert not isinstance(alone, ForewordError)
        for one, other in zip(together, alone, strict=True):
            assert np.array_equal(one.probabilities, other.probabilities)
            assert np.array_equal(one.support, other.support)


@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("parameters", [LAWS[0], LAWS[5], LAWS[10], LawParameters(temperature=0.0)])
def test_logits_that_are_not_numbers_cost_their_session_alone(bad: float, parameters: LawParameters) -> None:
    logits = logits_of("peaked", 0, 3, 700)
    broken = logits.copy()
    broken[1, 650 if np.isnan(bad) or bad > 0 else slice(None)] = bad
    if np.isnan(bad):
        broken.view(np.uint32)[1, 650] = 0xFFC00000 if np.signbit(bad) else 0x7FC00000
    batch = [LawRows(parameters, rows, candidates=(1, 2)) for rows in (logits, broken, logits)]
    found, wanted = try_compiled_laws(batch), try_target_laws(batch)
    assert isinstance(wanted[1], ForewordError)
    assert isinstance(found[1], ForewordError)
    assert (type(found[1]), found[1].message) == (type(wanted[1]), wanted[1].message)
    assert not isinstance(found[0], ForewordError)
    assert not isinstance(found[2], ForewordError)


def test_no_rows_at_all() -> None:
    assert try_compiled_laws([]) == []
    assert try_compiled_laws([LawRows(LAWS[0], np.empty((0, 5), dtype=np.float32))]) == [[]]


def compare(names: Sequence[str]) -> None:
    for name in names:
        for rule in Rule:
            test_evidence_is_that_of_the_reference(rule, name, drawn_block)
        test_laws_are_those_of_the_reference(name, 700)


def test_a_residual_that_is_drawn_from_the_masses_of_p_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    original = law.residual

    def not_renormalised(row, numbers, ids, taken, sums, out):  # type: ignore[no-untyped-def]
        mass = original(row, numbers, ids, taken, sums, out)
        out[:] = sums
        return mass

    monkeypatch.setattr(law, "residual", not_renormalised)
    with pytest.raises(AssertionError):
        compare(["peaked"])


def test_a_cut_that_is_off_by_one_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    original = laws.describe

    def one_fewer(addresses, widths, settings, top_k, sums, found, stays):  # type: ignore[no-untyped-def]
        original(addresses, widths, settings, top_k, sums, found, stays)
        stays[:, 1] -= stays[:, 1] > 1

    monkeypatch.setattr(laws, "describe", one_fewer)
    with pytest.raises(AssertionError):
        test_laws_are_those_of_the_reference("peaked", 700)


def test_noise_of_another_position_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    original = source.place
    monkeypatch.setattr(
        source, "place", lambda key, address: original(key, replace(address, position=address.position + 1))
    )
    with pytest.raises(AssertionError):
        test_evidence_is_that_of_the_reference(Rule.MATCH, "peaked", drawn_block)


@pytest.mark.parametrize("count", [1, 3, 4, 255, 256, 257, 5000])
def test_numbers_are_those_of_the_definition(count: int) -> None:
    rng = np.random.default_rng(count)
    for _ in range(5):
        address = Address(*(int(word) for word in rng.integers(0, 1 << 63, 3)))
        key = rng.bytes(16)
        wanted = integers(key, address, count)
        assert np.array_equal(philox.numbers(philox.place(key, address), count), wanted)
        ids = np.arange(count, dtype=np.int32)
        certain = np.where(ids == count - 1, 1.0, 0.0)
        assert races.race_some(ids, certain, philox.place(key, address)) == count - 1


def test_compiled_loops_are_for_large_vocabularies() -> None:
    assert arithmetic_for(64) is NUMPY
    assert isinstance(arithmetic_for(2048).source, CompiledSource)


def test_a_step_is_judged_as_by_the_reference() -> None:
    compiled = Arithmetic(*COMPILED)
    judged = 0
    for seed in range(30):
        part = drawn_part(seed, 4, 0.8)
        warm = replace(part[0], law=LAWS[seed % 2 + 5 * (seed % 3 == 0)])
        (found,), (wanted,) = (judge([(warm, *part[1:])], way) for way in (compiled, NUMPY))
        assert found == wanted
        judged += not isinstance(found, ForewordError)
    assert judged == 30
