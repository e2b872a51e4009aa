"""Leases with a drafter inside the target: no hop, no other text, and no address that is read twice."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from foreword.acceptance import source
from foreword.addresses.keys import Address
from foreword.laws.parameters import LawParameters
from foreword.models.synthetic import SyntheticModel
from foreword.protocol.messages import LocalOrder, PlainOrder, Recall, Result, TargetOpened, Tokens, VerdictNotice
from foreword.protocol.words import Drafter, ResultKind, Rule
from target_service.engine import judge
from target_service.engine.messages import Events, FromEngine, StepReport
from target_service.local.lookup import LocalLookup
from tests.unit.target_service.kit import (
    GREEDY,
    KEYS,
    PROMPT,
    SAMPLED,
    Bench,
    Peer,
    open_session,
    reference,
)
from tests.unit.target_service.local_kit import TextDrafter, leased, statuses

MODEL = SyntheticModel(vocabulary=64, step_ms=20.0)
LENGTH = 40
PENALIZED = LawParameters(temperature=0.9, top_p=0.9, frequency_penalty=0.6, stop_ids=(9,), min_tokens=LENGTH)
LAWS = {"temperature 0": GREEDY, "sampled": SAMPLED, "penalized": PENALIZED}


def mostly_right(own: Tokens):  # type: ignore[no-untyped-def]
    """Guess the target's own text, three times of four, and nothing now and then."""

    def guess(text: Tokens, most: int) -> Tokens:
        at = len(text) - len(PROMPT)
        right = own[at : at + most]
        return () if at % 7 == 3 else tuple(token if i % 4 != 2 else (token + 1) % 64 for i, token in enumerate(right))

    return guess


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS.keys())
@pytest.mark.parametrize(
    ("gamma", "limits"), [(1, (1 << 20,)), (4, (1 << 20,)), (8, (1, 2, 9)), (3, (5,)), (200, (64,))]
)
def test_under_match_the_text_is_that_of_plain_steps(law: LawParameters, gamma: int, limits: Tokens) -> None:
    own = reference(MODEL, LENGTH, law=law)
    bench, peer = Bench(model=MODEL, local=TextDrafter(mostly_right(own))), Peer()
    results = leased(bench, peer, gamma=gamma, limits=limits, law=law, length=LENGTH)
    assert peer.output == own
    assert bench.events(TargetOpened)[0].cached_tokens == 0
    assert results[-1].final
    if max(limits) > 2:
        assert len(results) < LENGTH, "candidates were kept"
    for result in results:
        assert len(result.ids) <= min(gamma, 8), "no block is longer than the target's own bound"
    bench.check_pages()


def test_a_lease_goes_on_without_a_hop_and_keeps_to_its_limit() -> None:
    own = reference(MODEL, 30)
    bench, peer = Bench(model=MODEL, local=TextDrafter(lambda text, most: own[len(text) - 5 :][:most])), Peer()
    results = leased(bench, peer, gamma=4, limits=(12,), length=30)
    sizes = Counter[int]()
    for result in results:
        sizes[result.round] += len(result.ids) + 1
        assert result.kind is (ResultKind.EVIDENCE if result.ids else ResultKind.PLAIN)
    assert list(sizes.values()) == [12, 12, 6], "up to K tokens, and the rest of the budget"
    assert [r.final for r in results if r.round == 1] == [False, False, False, True]
    times = [us for us, r in bench.timed_events(Result) if r.round == 1]
    assert all(b - a <= 20_001 for a, b in pairwise(times)), "one step after another"


def test_a_step_without_a_match_is_a_plain_step() -> None:
    plain_bench, plain_peer = Bench(model=MODEL), Peer()
    leased(plain_bench, plain_peer, law=SAMPLED)
    bench, peer = Bench(model=MODEL, local=TextDrafter(lambda text, most: ())), Peer()
    leased(bench, peer, law=SAMPLED)
    assert bench.timed_events(Result) == plain_bench.timed_events(Result)
    assert {r.kind for r in bench.events(Result)} == {ResultKind.PLAIN}


@pytest.mark.parametrize("rule", [Rule.MATCH, Rule.TOKEN, Rule.BLOCK])
def test_what_stands_in_the_text_is_looked_up(rule: Rule) -> None:
    model = SyntheticModel(vocabulary=8, step_ms=20.0)
    bench, peer = Bench(model=model, local=LocalLookup()), Peer(rule=rule)
    results = leased(bench, peer, law=SAMPLED, length=LENGTH)
    found = [r for r in results if r.ids]
    assert len(peer.output) == LENGTH
    assert len(found) > 5
    assert {r.drafter for r in found} == {Drafter.LOOKUP}
    assert len(results) < LENGTH, "some of it was kept"
    if rule is Rule.MATCH:
        assert peer.output == reference(model, LENGTH, law=SAMPLED)


def test_a_stop_id_among_the_kept_candidates_ends_the_lease() -> None:
    own = reference(MODEL, 30)
    stop = own[7]
    law = LawParameters(temperature=0.0, stop_ids=(stop,))
    bench, peer = Bench(model=MODEL, local=TextDrafter(lambda text, most: own[len(text) - 5 :][:most])), Peer()
    bench.command(open_session(law=law, first=peer.commit(LocalOrder(Drafter.LOOKUP, 4, 50))))
    bench.run(500)
    results = bench.events(Result)
    for result in results:
        peer.take(result)
    assert [r.final for r in results] == [False] * (len(results) - 1) + [True]
    assert own.index(stop) < len(peer.output) <= own.index(stop) + 5
    assert peer.output == own[: len(peer.output)]


def test_a_recall_ends_the_lease_after_the_running_step() -> None:
    own = reference(MODEL, 60)
    bench, peer = Bench(model=MODEL, local=TextDrafter(lambda text, most: own[len(text) - 5 :][:most])), Peer()
    bench.command(open_session(first=peer.commit(LocalOrder(Drafter.LOOKUP, 4, 50))))
    bench.command(Recall(1, 1), ms=50)
    bench.run(300)
    results = bench.events(Result)
    for result in results:
        peer.take(result)
    assert [r.final for r in results] == [False, False, True]
    assert peer.output == own[:11]


def test_blocks_of_a_draft_and_local_leases_take_turns() -> None:
    own = reference(MODEL, LENGTH, law=SAMPLED)
    bench, peer = Bench(model=MODEL, local=TextDrafter(mostly_right(own))), Peer()

    def react(message: FromEngine) -> None:
        for result in message.events if isinstance(message, Events) else ():
            if not isinstance(result, Result):
                continue
            peer.take(result)
            ms, base = bench.time.us / 1000, peer.sequence.base
            if not result.final or base >= LENGTH:
                continue
            if peer.round % 2:
                bench.command(peer.speculate(), ms=ms + 1)
                bench.block(peer.block((*own[base : base + 2], 63, 63)), ms=ms + 2)
            else:
                bench.command(peer.commit(LocalOrder(Drafter.LOOKUP, 4, 6)), ms=ms + 1)

    bench.channel.listeners.append(react)
    first = peer.commit(LocalOrder(Drafter.LOOKUP, 4, 6))
    bench.command(open_session(law=SAMPLED, first=first, max_output=LENGTH))
    bench.run(4000)
    assert peer.output == own
    assert {r.drafter for r in bench.events(Result) if r.ids} == {Drafter.LOOKUP, Drafter.SYNTHETIC}
    assert len(bench.answers(VerdictNotice)) == sum(r.drafter is Drafter.SYNTHETIC for r in bench.events(Result))


def test_many_sessions_share_the_steps_and_are_asked_for_at_once() -> None:
    asked: list[int] = []
    own = reference(MODEL, LENGTH)

    class Counting(TextDrafter):
        def guess(self, wishes):  # type: ignore[no-untyped-def]
            asked.append(len(wishes))
            return super().guess(wishes)

    bench = Bench(model=MODEL, local=Counting(mostly_right(own)))
    peers = [Peer(sid) for sid in (1, 2, 3)]
    for peer in peers:
        first = peer.commit(LocalOrder(Drafter.LOOKUP, 4, 50))
        bench.command(open_session(peer.sid, first=first, max_output=LENGTH, with_ticket=False))
    bench.run(3000)
    for result in bench.events(Result):
        peers[result.sid - 1].take(result)
    assert [peer.output for peer in peers] == [own] * 3
    assert max(asked) == 3
    reports = [m for _, batch in bench.channel.batches for m in batch if isinstance(m, StepReport)]
    assert sum(r.guessed for r in reports) == sum(bool(r.ids) for r in bench.events(Result))
    assert sum(r.guessed + r.plain for r in reports) == len(bench.events(Result))


def test_a_session_that_was_preempted_goes_on_with_the_same_text() -> None:
    own = reference(MODEL, LENGTH)
    bench = Bench(model=MODEL, local=TextDrafter(mostly_right(own)), pages=6, page_size=16)
    peers = [Peer(sid) for sid in (1, 2, 3)]

    def react(message: FromEngine) -> None:
        for result in message.events if isinstance(message, Events) else ():
            if isinstance(result, Result):
                peers[result.sid - 1].take(result)
                if result.final:
                    bench.command(peers[result.sid - 1].close(), ms=bench.time.us / 1000 + 1)

    bench.channel.listeners.append(react)
    for peer in peers:
        first = peer.commit(LocalOrder(Drafter.LOOKUP, 4, 50))
        bench.command(open_session(peer.sid, first=first, max_output=LENGTH, with_ticket=False))
    bench.run(10_000)
    assert [peer.output for peer in peers] == [own] * 3
    assert sum(status.counts.get("preempted", 0) for status in statuses(bench))
    bench.check_pages()


def test_a_long_prompt_is_told_in_pieces_beside_plain_steps() -> None:
    prompt = PROMPT * 12
    own = reference(MODEL, 20, prompt=prompt)
    drafter = TextDrafter(lambda text, most: own[len(text) - len(prompt) :][:most], at_once=16)
    bench, peer = Bench(model=MODEL, local=drafter), Peer(prompt=prompt)
    results = leased(bench, peer, length=20, prompt=prompt)
    assert peer.output == own
    assert max(drafter.told) == 16
    assert [bool(r.ids) for r in results[:5]] == [False] * 4 + [True], "the first token, and three pieces"


def test_prompts_that_come_together_are_told_one_after_another() -> None:
    own = reference(MODEL, LENGTH)
    drafter = TextDrafter(mostly_right(own), at_once=5)
    bench, peers = Bench(model=MODEL, local=drafter), [Peer(sid) for sid in (1, 2, 3, 4)]
    for peer in peers:
        first = peer.commit(LocalOrder(Drafter.LOOKUP, 4, 50))
        bench.command(open_session(peer.sid, first=first, max_output=LENGTH, with_ticket=False))
    bench.run(4000)
    for result in bench.events(Result):
        peers[result.sid - 1].take(result)
    assert [peer.output for peer in peers] == [own] * 4
    assert 0 < min(drafter.told) <= max(drafter.told) <= 5
    assert {r.sid for r in bench.events(Result) if r.ids} == {1, 2, 3, 4}


def test_what_the_drafter_holds_goes_with_the_session() -> None:
    drafter = TextDrafter(lambda text, most: ())
    bench, peer = Bench(model=MODEL, local=drafter), Peer()
    leased(bench, peer, length=10)
    assert drafter.texts
    bench.command(peer.close(), ms=bench.time.us / 1000 + 1)
    bench.run(10_000)
    assert not drafter.texts


def test_a_text_too_long_for_the_drafter_is_decoded_plainly() -> None:
    own = reference(MODEL, 20)
    drafter = TextDrafter(lambda text, most: own[len(text) - 5 :][:most], longest_context=12)
    bench, peer = Bench(model=MODEL, local=drafter), Peer()
    results = leased(bench, peer, length=20)
    assert peer.output == own
    assert any(r.ids for r in results)
    assert not any(r.ids for r in results if r.base + 5 >= 12)


@pytest.mark.parametrize("drafter", [None, TextDrafter(lambda text, most: (1,) * most)], ids=["none", "another"])
def test_without_the_drafter_that_is_asked_for_the_lease_is_plain(drafter: TextDrafter | None) -> None:
    bench, peer = Bench(model=MODEL, local=drafter), Peer()
    bench.command(open_session(first=peer.commit(LocalOrder(Drafter.MODEL, 4, 5))))
    bench.run(500)
    assert [r.kind for r in bench.events(Result)] == [ResultKind.PLAIN] * 5


class Addresses(source.PhiloxSource):
    """Notes every address at which a number is looked at, each time."""

    def __init__(self) -> None:
        self.seen: Counter[tuple[bytes, Address]] = Counter()

    def choose(self, key, draws):  # type: ignore[no-untyped-def]
        self.seen.update((key, address) for address, _ in draws)
        return super().choose(key, draws)

    def below(self, key, coins):  # type: ignore[no-untyped-def]
        self.seen.update((key, address) for address, _ in coins)
        return super().below(key, coins)


def noted(rule: Rule, monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[bytes, Address]]:
    """Decode a lease whose candidates are sometimes refused, and return the addresses that the target looked at."""
    addresses = Addresses()
    for name in ("gather", "decide", "plain"):
        monkeypatch.setattr(judge, name, _with_source(getattr(judge, name), addresses))
    own = reference(MODEL, 60, law=SAMPLED)
    bench = Bench(model=MODEL, local=TextDrafter(mostly_right(own)))
    bench.command(open_session(law=SAMPLED, first=Peer(rule=rule).commit(LocalOrder(Drafter.LOOKUP, 6, 50))))
    bench.run(4000)
    assert any(r.ids for r in bench.events(Result))
    assert any(not r.ids for r in bench.events(Result))
    return addresses.seen


def _with_source(honest, addresses):  # type: ignore[no-untyped-def]
    return lambda *args, **kwargs: honest(*args, **{**kwargs, "source": addresses})


@pytest.mark.parametrize("rule", [Rule.TOKEN, Rule.BLOCK])
def test_no_address_is_read_twice_in_a_lease(rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = noted(rule, monkeypatch)
    assert len(seen) > 40
    assert {key for key, _ in seen} == {KEYS.emit, KEYS.coin}
    assert max(seen.values()) == 1


@pytest.mark.parametrize("rule", [Rule.TOKEN, Rule.BLOCK])
def test_a_base_that_stands_still_is_caught(rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: all blocks of a lease have the base of their Commit, as one block in a round has."""
    honest = judge.gather

    def at_the_commit(*args, **kwargs):  # type: ignore[no-untyped-def]
        return honest(*args, **{**kwargs, "base": 0})

    monkeypatch.setattr(judge, "gather", at_the_commit)
    assert max(noted(rule, monkeypatch).values()) > 1


@pytest.mark.parametrize("times", [1, 5])
def test_a_drafter_that_fails_costs_its_candidates_and_nothing_else(times: int) -> None:
    own = reference(MODEL, LENGTH)
    failures = iter(range(times))

    def guess(text: Tokens, most: int) -> Tokens:
        if len(text) > 12 and next(failures, None) is not None:
            raise RuntimeError("planted")
        return own[len(text) - 5 :][:most]

    bench, peer = Bench(model=MODEL, local=TextDrafter(guess)), Peer()
    results = leased(bench, peer)
    assert peer.output == own
    assert sum(status.counts.get("failed_guess", 0) for status in statuses(bench)) == min(times, 3)
    assert any(r.ids for r in results if r.base > 20) == (times < 3), "it is left alone in the end"


def test_plain_orders_stay_plain() -> None:
    asked = TextDrafter(lambda text, most: pytest.fail("it was asked"))
    bench, peer = Bench(model=MODEL, local=asked), Peer()
    bench.command(open_session(first=peer.commit(PlainOrder(5))))
    bench.run(500)
    assert [r.kind for r in bench.events(Result)] == [ResultKind.PLAIN] * 5
