"""Log-probabilities: those of the target law, the same for plain and verified tokens."""

from __future__ import annotations

import math

import numpy as np
import pytest

from foreword.laws.parameters import LawParameters
from foreword.protocol.messages import Result
from foreword.protocol.words import Rule
from tests.unit.target_service.kit import GREEDY, SAMPLED, Bench, Peer, open_session, reference

LAWS = [GREEDY, SAMPLED, LawParameters(temperature=0.7, top_k=5, repetition_penalty=1.3)]


def plain_results(law: LawParameters, count: int, *, top: int | None) -> list[Result]:
    bench, peer = Bench(), Peer()
    bench.command(open_session(law=law, top_logprobs=top, first=peer.plain(count)))
    bench.run(1000)
    return bench.events(Result)


@pytest.mark.parametrize("law", LAWS)
def test_verified_tokens_have_the_log_probabilities_of_plain_ones(law: LawParameters) -> None:
    plain = plain_results(law, 4, top=3)
    bench, peer = Bench(), Peer()
    own = reference(bench.model, 4, law=law)
    bench.command(open_session(law=law, top_logprobs=3))
    bench.command(peer.speculate(), ms=30)
    bench.block(peer.block(own[:3]), ms=31)
    bench.run(200)
    (verified,) = bench.events(Result)
    assert verified.candidate_logprobs is not None
    assert verified.emit_logprobs is not None
    chosen = (*verified.candidate_logprobs.chosen, verified.emit_logprobs.chosen[3])
    top = (*verified.candidate_logprobs.top, verified.emit_logprobs.top[3])
    assert chosen == tuple(r.emit_logprobs.chosen[0] for r in plain if r.emit_logprobs)
    assert top == tuple(r.emit_logprobs.top[0] for r in plain if r.emit_logprobs)
    assert all(len(pairs) == 3 for pairs in top)


def test_at_temperature_0_they_are_those_of_temperature_1() -> None:
    (result,) = plain_results(GREEDY, 1, top=64)
    assert result.emit_logprobs is not None
    pairs = result.emit_logprobs.top[0]
    assert pairs[0][0] == result.emit[0]
    assert math.fsum(math.exp(value) for _, value in pairs) == pytest.approx(1.0)
    assert pairs[0][1] < -0.1, "not those of a certainty"


def test_nobody_pays_for_what_was_not_asked_for() -> None:
    (result,) = plain_results(SAMPLED, 1, top=None)
    assert result.emit_logprobs is None
    (chosen_only,) = plain_results(SAMPLED, 1, top=0)
    assert chosen_only.emit_logprobs is not None
    assert chosen_only.emit_logprobs.top == ()


@pytest.mark.parametrize("rule", [Rule.TOKEN, Rule.BLOCK])
def test_rules_that_trust_the_draft_get_its_law_cut_with_the_block(rule: Rule) -> None:
    from foreword.protocol.messages import SparseCounts

    law = SparseCounts(tuple(range(64)), (64,) * 64, 12)
    bench, peer = Bench(), Peer(rule=rule)
    bench.command(open_session(law=SAMPLED))
    bench.command(peer.speculate(gamma=2), ms=30)
    bench.block(peer.block((1, 2, 3, 4), law=(law,) * 4), ms=31)
    bench.run(200)
    (result,) = bench.events(Result)
    assert (result.ids, len(result.acceptance), len(result.emit)) == ((1, 2), 2, 3)
    assert result.ratios is not None
    assert np.isfinite(result.ratios).all()
    peer.take(result)
