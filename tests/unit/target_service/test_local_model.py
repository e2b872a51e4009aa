"""A draft model inside the target: the target's own text, from the draft's laws, within the pages that there are."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from foreword.addresses.keys import Address
from foreword.laws.parameters import LawParameters
from foreword.laws.pipeline import LawRows, target_laws
from foreword.models.synthetic import SyntheticModel
from foreword.protocol.messages import LocalOrder, Result, TargetKeys, Tokens
from foreword.protocol.words import Drafter, Rule
from foreword.runner.port import Rows
from foreword.testing.synthetic import Side, SyntheticRunner
from target_service.local import draw, model
from target_service.local.model import LocalModel
from tests.unit.target_service.kit import GREEDY, PROMPT, SAMPLED, Bench, Peer, open_session, reference
from tests.unit.target_service.local_kit import leased, statuses

MODEL = SyntheticModel(vocabulary=64, step_ms=20.0)
SMALL = SyntheticModel(vocabulary=8, step_ms=20.0, agreement=0.4)
LENGTH = 40
PENALIZED = LawParameters(temperature=0.9, top_p=0.9, frequency_penalty=0.6, stop_ids=(9,), min_tokens=LENGTH)


class Eager(LocalModel):
    """Reads all prompts before one step."""

    at_once = 1 << 20  # type: ignore[assignment]


def beside(pair: SyntheticModel, *, pages: int = 1 << 10, kind: type[LocalModel] = LocalModel) -> LocalModel:
    runner = SyntheticRunner(replace(pair, step_ms=0.0), side=Side.DRAFT, pages=pages, page_size=16)
    return kind(runner, Drafter.SYNTHETIC, vocabulary_size=pair.vocabulary)


@pytest.mark.parametrize("law", [GREEDY, SAMPLED, PENALIZED], ids=["temperature 0", "sampled", "penalized"])
@pytest.mark.parametrize(("gamma", "limits"), [(1, (99,)), (4, (99,)), (7, (1, 2, 9))])
def test_under_match_the_text_is_that_of_plain_steps(law: LawParameters, gamma: int, limits: Tokens) -> None:
    bench, peer = Bench(model=MODEL, local=beside(MODEL)), Peer()
    results = leased(bench, peer, gamma=gamma, limits=limits, law=law, drafter=Drafter.SYNTHETIC)
    assert peer.output == reference(MODEL, LENGTH, law=law)
    assert {r.drafter for r in results if r.ids} == {Drafter.SYNTHETIC}
    if gamma == 4:
        assert len(results) < LENGTH / 1.7


@pytest.mark.parametrize("rule", [Rule.TOKEN, Rule.BLOCK])
def test_candidates_are_kept_under_the_rules_that_trust(rule: Rule) -> None:
    bench, peer = Bench(model=MODEL, local=beside(MODEL)), Peer(rule=rule)
    results = leased(bench, peer, law=SAMPLED, drafter=Drafter.SYNTHETIC)
    assert len(peer.output) == LENGTH
    assert len(results) < LENGTH / 1.7
    assert all(r.ratios is not None for r in results if r.ids)


def test_sessions_beyond_its_pages_go_without_and_are_served_later() -> None:
    bench = Bench(model=MODEL, local=beside(MODEL, pages=5))
    peers = [Peer(sid) for sid in (1, 2, 3)]
    for peer in peers:
        first = peer.commit(LocalOrder(Drafter.SYNTHETIC, 4, 99))
        bench.command(open_session(peer.sid, first=first, max_output=20 * peer.sid, with_ticket=False))
    bench.run(4000)
    for result in bench.events(Result):
        peers[result.sid - 1].take(result)
    own = reference(MODEL, 60)
    assert [peer.output for peer in peers] == [own[:20], own[:40], own]
    late = [bool(r.ids) for r in bench.events(Result) if r.sid == 3 and r.base > 45]
    assert any(late), "the others have gone"


def test_prompts_are_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "READ_AT_ONCE", 8)
    prompt = PROMPT * 8
    bench, peers = Bench(model=MODEL, local=beside(MODEL)), [Peer(sid, prompt=prompt) for sid in (1, 2, 3)]
    for peer in peers:
        first = peer.commit(LocalOrder(Drafter.SYNTHETIC, 4, 99))
        opened = open_session(peer.sid, tokens=prompt, first=first, max_output=LENGTH, with_ticket=False)
        bench.command(opened)
    bench.run(4000)
    for result in bench.events(Result):
        peers[result.sid - 1].take(result)
    assert [peer.output for peer in peers] == [reference(MODEL, LENGTH, prompt=prompt)] * 3
    assert {r.sid for r in bench.events(Result) if r.ids} == {1, 2, 3}
    assert not any(status.counts.get("failed_guess") for status in statuses(bench))


def test_no_number_is_drawn_twice_in_a_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[tuple[bytes, Address]] = Counter()
    honest = draw.first_integers

    def noting(key, addresses):  # type: ignore[no-untyped-def]
        seen.update((key, address) for address in addresses)
        return honest(key, addresses)

    monkeypatch.setattr(draw, "first_integers", noting)
    bench, peer = Bench(model=SMALL, local=beside(SMALL)), Peer(rule=Rule.BLOCK)
    leased(bench, peer, law=SAMPLED, drafter=Drafter.SYNTHETIC)
    assert len(seen) > 30
    assert max(seen.values()) == 1
    assert len({address.position for _, address in seen}) < len(seen), "positions come again behind what was refused"


def second_tokens(rule: Rule, sessions: int) -> dict[int, Counter[int]]:
    """Return how often each token came second, by the first, over sessions with keys of their own."""
    bench = Bench(model=SMALL, local=beside(SMALL, kind=Eager), max_sessions=sessions)
    for sid in range(1, sessions + 1):
        keys = TargetKeys(*(f"{purpose}{sid:015d}".encode() for purpose in "mec"))
        first = replace(Peer(sid, rule=rule).commit(LocalOrder(Drafter.SYNTHETIC, 3, 5)), round=1)
        opened = open_session(sid, law=SAMPLED, first=first, max_output=9, with_ticket=False)
        bench.command(replace(opened, keys=keys))
    bench.run(10_000)
    found: dict[int, Counter[int]] = {}
    for record in bench.engine._sessions:
        context = record.session.sequence.tokens + record.session.assumed
        first, second = context[len(PROMPT) : len(PROMPT) + 2]
        found.setdefault(first, Counter())[second] += 1
    return found


@pytest.mark.parametrize("rule", [Rule.TOKEN, Rule.BLOCK])
def test_the_law_of_the_first_verified_token_is_the_targets(rule: Rule) -> None:
    assert p_value(second_tokens(rule, 600)) > 1e-4


def p_value(found: dict[int, Counter[int]]) -> float:
    """Return the p-value of all second tokens given the first; cells with few expected are pooled."""
    runner = SyntheticRunner(replace(SMALL, step_ms=0.0), side=Side.TARGET)
    seen: list[float] = []
    expected: list[float] = []
    for slot, (first, counted) in enumerate(sorted(found.items())):
        runner.open(slot)
        logits = runner.forward([Rows(slot, (*PROMPT, first), 1)])[0]
        law = target_laws([LawRows(SAMPLED, logits, PROMPT, (first,), (), first_position=1)])[0][0]
        for token in range(SMALL.vocabulary):
            seen.append(counted[token])
            expected.append(law.probability_of(token) * counted.total())
    counts, means = np.array(seen), np.array(expected)
    rare = means < 5.0
    counts = np.append(counts[~rare], counts[rare].sum())
    means = np.append(means[~rare], means[rare].sum())
    return float(stats.chisquare(counts, means * counts.sum() / means.sum()).pvalue)


@pytest.mark.parametrize("rule", [Rule.TOKEN, Rule.BLOCK])
def test_a_draw_that_is_not_from_its_counts_is_caught(rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the last id of the support is taken instead of what the number says."""
    monkeypatch.setattr(draw, "sample", lambda counts, number: max(counts.ids))
    assert p_value(second_tokens(rule, 300)) < 1e-4
