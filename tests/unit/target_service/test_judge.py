"""Evidence and log-probabilities: those of the target law, the same for plain and verified tokens."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from foreword.acceptance import Evidence, decide, gather
from foreword.laws.counts import to_counts
from foreword.laws.law import Law
from foreword.laws.parameters import LawParameters
from foreword.laws.pipeline import LawRows, target_laws
from foreword.models.synthetic import SyntheticModel
from foreword.protocol.messages import Block, Result, VerdictNotice
from foreword.protocol.words import Rule
from foreword.runner.port import Rows
from foreword.testing.synthetic import Side, SyntheticRunner
from tests.unit.target_service.kit import GREEDY, KEYS, PROMPT, SAMPLED, Bench, Peer, open_session, reference

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


def drawn_block(peer: Peer, seed: int, *, gamma: int = 3) -> Block:
    """Return a block of ids drawn from counts over the whole vocabulary, for the round of the last Commit."""
    rng = np.random.default_rng(seed)
    laws, ids = [], []
    for _ in range(gamma):
        weights = rng.dirichlet(np.full(64, 0.3))
        law = to_counts(Law(None, weights), bits=12, cap=32)
        laws.append(law)
        ids.append(int(rng.choice(law.ids, p=np.array(law.counts) / 4096)))
    return peer.block(tuple(ids), law=tuple(laws))


def own_laws(model: SyntheticModel, tokens: tuple[int, ...], ids: tuple[int, ...], law: LawParameters) -> list[Law]:
    """Return the target laws behind `tokens` and after each candidate, with nothing cached."""
    runner = SyntheticRunner(replace(model, step_ms=0.0), side=Side.TARGET)
    runner.open(0)
    logits = runner.forward([Rows(0, tokens + ids, len(ids) + 1)])[0]
    output = tokens[len(PROMPT) :]
    return target_laws([LawRows(law, logits, PROMPT, output, ids, first_position=len(output))])[0]


@pytest.mark.parametrize("rule", list(Rule))
@pytest.mark.parametrize("law", [SAMPLED, LAWS[2]], ids=["sampled", "penalised"])
def test_evidence_is_what_the_rules_say_of_laws_computed_afresh(rule: Rule, law: LawParameters) -> None:
    bench, peer = Bench(), Peer(rule=rule)
    bench.command(open_session(law=law))
    blocks: list[tuple[Block, tuple[int, ...]]] = []
    results: list[Result] = []

    def play(ms: float) -> None:
        bench.command(peer.speculate(), ms=ms)
        blocks.append((drawn_block(peer, len(blocks)), peer.sequence.tokens))
        bench.block(blocks[-1][0], ms=ms)

    for turn in range(8):
        play(30.0 + 40 * turn)
        bench.run(60.0 + 40 * turn)
        results = bench.events(Result)
        peer.take(results[-1])
    assert len(results) == 8
    assert len({len(r.emit) for r in results}) == 1
    elsewhere = 0
    for (block, tokens), result in zip(blocks, results, strict=True):
        laws = own_laws(bench.model, tokens, block.ids, law)
        wanted = gather(rule, laws, block.ids, block.law, keys=KEYS, round=result.round, base=result.base)
        assert (result.acceptance, result.emit, result.ratios) == (wanted.acceptance, wanted.emit, wanted.ratios)
        shifted = gather(rule, laws, block.ids, block.law, keys=KEYS, round=result.round, base=result.base + 1)
        elsewhere += result.emit != shifted.emit
    assert elsewhere, "numbers of another base would have been noticed"


@pytest.mark.parametrize("rule", list(Rule))
def test_the_verdict_that_a_draft_is_told_is_what_the_orchestrator_decides(rule: Rule) -> None:
    bench, peer = Bench(), Peer(rule=rule)
    bench.command(open_session(law=SAMPLED))
    decided, elsewhere = [], 0
    for turn in range(8):
        ms = 30.0 + 40 * turn
        bench.command(peer.speculate(), ms=ms)
        bench.block(drawn_block(peer, turn), ms=ms)
        bench.run(ms + 30)
        result = bench.events(Result)[-1]
        evidence = Evidence(result.acceptance, result.emit, result.ratios)
        verdict, shifted = (
            decide(rule, evidence, coin_key=KEYS.coin, round=result.round, base=base)
            for base in (result.base, result.base + 1)
        )
        decided.append((result.round, verdict.kept, verdict.emitted))
        elsewhere += verdict != shifted
        peer.take(result)
    assert [(told.round, told.kept, told.emitted) for told in bench.answers(VerdictNotice)] == decided
    assert elsewhere or rule is Rule.MATCH, "coins of another base would have been noticed"


@pytest.mark.parametrize("rule", [Rule.TOKEN, Rule.BLOCK])
def test_a_block_longer_than_its_order_is_cut_and_its_laws_with_it(rule: Rule) -> None:
    bench, peer = Bench(), Peer(rule=rule)
    bench.command(open_session(law=SAMPLED))
    bench.command(peer.speculate(gamma=2), ms=30)
    block = drawn_block(peer, 1, gamma=4)
    bench.block(block, ms=31)
    bench.run(200)
    (result,) = bench.events(Result)
    assert (result.ids, len(result.acceptance), len(result.emit)) == (block.ids[:2], 2, 3)
    peer.take(result)
