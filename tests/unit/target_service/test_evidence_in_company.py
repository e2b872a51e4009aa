"""Sixteen sessions with blocks of different lengths in one step: each is told what it is told alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from foreword.laws.parameters import LawParameters
from foreword.models.synthetic import SyntheticModel
from foreword.protocol.messages import OneHot, Result, SparseCounts
from foreword.protocol.words import ResultKind, Rule
from foreword.runner.budget import CacheBudget
from foreword.runner.port import Logits, Rows, Runner
from foreword.runner.real import real_runner
from tests.unit.runner.tiny import LONGEST, V, config, module
from tests.unit.target_service.kit import Bench, Peer, open_session

SESSIONS = 16
LAW = LawParameters(temperature=0.8, top_p=0.9, repetition_penalty=1.2)
RANDOM = np.random.default_rng(4)
PROMPTS = [tuple(int(t) for t in RANDOM.integers(0, V, 3 + 4 * n)) for n in range(SESSIONS)]
BLOCKS = [tuple(int(t) for t in RANDOM.integers(0, V, n % 8)) for n in range(SESSIONS)]
BLIND = LawParameters(temperature=0.8)


def tiny_runner(*, deterministic: bool) -> Runner:
    return real_runner(
        module(config("llama")),
        vocabulary_size=V,
        longest_context=LONGEST,
        budget=CacheBudget(4096),
        deterministic=deterministic,
    )


def laws(number: int) -> tuple[SparseCounts, ...]:
    """Return what a draft that draws would send with a session's block: integer counts, its candidates among them."""
    random = np.random.default_rng(number)
    found = []
    for token in BLOCKS[number]:
        others = [int(t) for t in random.choice(V, 6, replace=False) if t != token]
        ids = tuple(sorted((token, *others)))
        counts = random.multinomial(4096 - len(ids), random.dirichlet([1.0] * len(ids))) + 1
        found.append(SparseCounts(ids, tuple(int(c) for c in counts), 12))
    return tuple(found)


def results(
    who: Sequence[int], runner: Callable[[Any], Any], rule: Rule, law: LawParameters, *, counts: bool = False
) -> list[Result]:
    """Return the Results of these sessions, whose blocks are verified in one step."""
    bench = Bench(model=SyntheticModel(vocabulary=V, step_ms=1.0, context=LONGEST), wrap=runner)
    for number in who:
        sid = number + 1
        peer = Peer(sid, rule=rule, prompt=PROMPTS[number])
        bench.command(open_session(sid, tokens=PROMPTS[number], law=law, top_logprobs=4))
        bench.command(peer.speculate(7), ms=500.0)
        bench.block(peer.block(BLOCKS[number], law=laws(number) if counts else OneHot()), ms=500.0)
    bench.run(ms=900.0)
    found = bench.events(Result)
    assert [result.sid for result in found] == [number + 1 for number in who]
    assert {result.kind for result in found} == {ResultKind.EVIDENCE}
    assert len({result.timing.step_rows for result in found}) == 1  # all in one step
    return found


def numbers(result: Result) -> list[float]:
    """Return all probabilities of a Result, as log-probabilities where they are not 0."""
    assert result.candidate_logprobs is not None
    assert result.emit_logprobs is not None
    logs = [*result.candidate_logprobs.chosen, *result.emit_logprobs.chosen]
    tops = [log for part in (result.candidate_logprobs, result.emit_logprobs) for top in part.top for _, log in top]
    rates = [*result.acceptance, *(result.ratios or ())]
    return [*logs, *tops, *(float(np.log(max(p, 1e-30))) for p in rates)]


def assert_as_alone(together: Sequence[Result], alone: Sequence[Result], *, bits: bool) -> None:
    for one, other in zip(together, alone, strict=True):
        assert (one.ids, one.emit) == (other.ids, other.emit)
        if bits:
            assert numbers(one) == numbers(other)
        else:
            np.testing.assert_allclose(numbers(one), numbers(other), atol=1e-4, rtol=0)


def compare(runner: Runner, rule: Rule, law: LawParameters, *, bits: bool, counts: bool = False) -> None:
    together = results(range(SESSIONS), lambda _: runner, rule, law, counts=counts)
    for slot in range(SESSIONS):
        runner.close(slot)
    alone = []
    for number in range(SESSIONS):
        alone += results([number], lambda _: runner, rule, law, counts=counts)
        runner.close(0)
    assert_as_alone(together, alone, bits=bits)


WAYS = [(Rule.MATCH, False), (Rule.TOKEN, False), (Rule.TOKEN, True), (Rule.BLOCK, False), (Rule.BLOCK, True)]
"""Rules, and whether blocks come with the counts that they were drawn from."""


@pytest.mark.parametrize(("rule", "counts"), WAYS)
@pytest.mark.parametrize("law", [LAW, BLIND])
def test_evidence_in_company_is_that_alone(rule, counts, law):
    compare(tiny_runner(deterministic=False), rule, law, bits=False, counts=counts)


@pytest.mark.parametrize(("rule", "counts"), WAYS)
def test_in_deterministic_mode_it_is_the_same_to_the_last_bit(rule, counts):
    compare(tiny_runner(deterministic=True), rule, LAW, bits=True, counts=counts)


class Mixed:
    """A runner whose sessions leak into each other when they share a step, by a little."""

    def __init__(self, inner: Runner) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def forward(self, batch: Sequence[Rows]) -> list[Logits]:
        logits = self._inner.forward(batch)
        leak = 3e-3 * (len(batch) > 1)
        return [rows + np.float32(leak) * np.roll(rows, 1, axis=1) for rows in logits]


def test_sessions_that_leak_into_each_other_are_noticed():
    with pytest.raises(AssertionError):
        compare(Mixed(tiny_runner(deterministic=False)), Rule.TOKEN, LAW, bits=False)


def test_rounding_is_noticed_where_bits_are_compared():
    torch.manual_seed(0)
    runner = Mixed(tiny_runner(deterministic=True))
    together = results(range(SESSIONS), lambda _: runner, Rule.MATCH, LAW)
    other = tiny_runner(deterministic=True)
    alone: list[Result] = []
    for number in range(SESSIONS):
        alone += results([number], lambda _: other, Rule.MATCH, LAW)
        other.close(0)
    with pytest.raises(AssertionError):
        assert_as_alone(together, alone, bits=True)
