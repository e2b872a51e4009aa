"""Pages run out: sessions give theirs up and go on later, and nobody can tell from what they are told."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreword.errors import InvalidField
from foreword.models.synthetic import SyntheticModel
from foreword.protocol.messages import Lost, Refused, Result, TargetOpened, Tokens
from foreword.protocol.words import LossCode
from foreword.runner.port import Logits, Rows
from target_service.core.budget import Budget
from target_service.engine.messages import Events, FromEngine, Status
from tests.unit.target_service.kit import SAMPLED, Bench, Peer, open_session, reference

MODEL = SyntheticModel(step_ms=20.0)


class Checked:
    """A runner that checks its pages around every pass."""

    def __init__(self, runner: Any) -> None:
        self._runner = runner

    def __getattr__(self, name: str) -> object:
        return getattr(self._runner, name)

    def forward(self, batch: Sequence[Rows]) -> list[Logits]:
        self._runner._pool.check_integrity()
        found: list[Logits] = self._runner.forward(batch)
        self._runner._pool.check_integrity()
        return found


def counts(bench: Bench) -> dict[str, int]:
    found: dict[str, int] = {}
    for _, batch in bench.channel.batches:
        for message in batch:
            for name, times in message.counts.items() if isinstance(message, Status) else ():
                found[name] = found.get(name, 0) + times
    return found


def test_the_youngest_gives_up_its_pages_and_goes_on_when_they_are_free() -> None:
    bench, peers = Bench(pages=6, gamma_max=2, wrap=Checked), [Peer(sid, prompt=(sid,) * 15) for sid in (1, 2, 3)]
    bench.command(*(open_session(p.sid, tokens=p.prompt, first=p.plain(40), max_output=40) for p in peers))
    talk(bench, peers, {}, length=40)
    bench.run(6000)
    assert not bench.events(Lost)
    for peer in peers:
        assert peer.output == reference(bench.model, 40, prompt=peer.prompt)
    last = {event.sid: us for us, event in bench.timed_events(Result)}
    assert last[1] < last[2] < last[3], "the older ones went first"
    found = counts(bench)
    assert found["preempted"] >= 1
    assert found["recomputed_tokens"] >= 1
    assert bench.runner.resident_tokens == 0


def test_one_session_alone_may_have_all_of_the_cache() -> None:
    bench, peers = Bench(pages=4, gamma_max=2, wrap=Checked), [Peer(sid, prompt=(sid,) * 15) for sid in (1, 2)]
    bench.command(*(open_session(p.sid, tokens=p.prompt, first=p.plain(60)) for p in peers))
    bench.run(1500)
    last = [event for event in bench.events(Result) if event.sid == 1][-1]
    assert last.final
    assert last.base + 1 + 15 == 64
    assert not bench.events(Lost)


def test_what_does_not_fit_alone_is_lost_with_its_reason() -> None:
    class Stingy(Checked):
        """A runner whose pages hold less than it said."""

        def pages_wanted(self, slot: int, length: int) -> int:
            return 99 if length > 30 else int(self._runner.pages_wanted(slot, length))

    bench, peer = Bench(pages=8, gamma_max=0, wrap=Stingy), Peer(1, prompt=(5,) * 15)
    bench.command(open_session(1, tokens=peer.prompt, first=peer.plain(40)))
    bench.run(1000)
    (lost,) = bench.events(Lost)
    assert lost == Lost(1, LossCode.EVICTED, "pages: this session's 32 tokens do not fit the cache")
    assert bench.runner.resident_tokens == 0


def test_a_session_that_waits_for_its_block_may_be_preempted_and_still_gets_it() -> None:
    bench, old, young = Bench(pages=4, gamma_max=2, wrap=Checked), Peer(1, prompt=(1,) * 15), Peer(2, prompt=(2,) * 15)
    own = reference(bench.model, 3, prompt=young.prompt)
    bench.command(open_session(1, tokens=old.prompt, first=old.plain(40), max_output=40))
    bench.command(open_session(2, tokens=young.prompt))
    bench.command(young.speculate(gamma=2, wait_ms=5_000), ms=30)
    bench.command(old.close(), ms=950)  # by then it holds three pages of four
    bench.block(young.block(own[:2]), ms=600)
    bench.run(1500)
    assert counts(bench)["preempted"] == 1
    (result,) = [event for event in bench.events(Result) if event.sid == 2]
    assert (result.ids, result.emit) == (own[:2], own)
    assert bench.timed_events(Result)[-1][0] > 950_000


def talk(bench: Bench, peers: Sequence[Peer], texts: dict[int, Tokens], *, length: int) -> None:
    """Let sessions go on for `length` tokens, by blocks where their text is known and by leases else, and close."""
    by_sid = {peer.sid: peer for peer in peers}

    def react(message: FromEngine) -> None:
        for event in message.events if isinstance(message, Events) else ():
            if isinstance(event, Result):
                go_on(by_sid[event.sid], event)

    def go_on(peer: Peer, event: Result) -> None:
        peer.take(event)
        ms, base = bench.time.us / 1000, peer.sequence.base
        if base >= length:
            bench.command(peer.close(), ms=ms)
        elif event.final:
            chance = random.Random(1000 * peer.sid + base)
            if peer.sid in texts:
                right = texts[peer.sid][base : base + chance.randint(0, 4)]
                bench.command(peer.speculate(wait_ms=12), ms=ms + 1)
                bench.block(peer.block((*right, 9)[:4]), ms=ms + chance.choice((2, 8, 20)))
            else:
                bench.command(peer.plain(chance.randint(1, 30)), ms=ms + 1)

    bench.channel.listeners.append(react)


def lived(pages: int, prompts: Sequence[int], *, chunk: int) -> tuple[Bench, list[Peer]]:
    """Run sessions with these lengths of prompts, all at the same time; every other one has a draft."""
    bench = Bench(
        model=MODEL, pages=pages, page_size=4, gamma_max=4, max_waiting=64, wrap=Checked, budget=Budget(24, chunk)
    )
    peers = [
        Peer(sid, prompt=tuple((sid % 3 + i // 2) % 64 for i in range(size))) for sid, size in enumerate(prompts, 1)
    ]
    texts = {p.sid: reference(MODEL, 40, law=SAMPLED, prompt=p.prompt) for p in peers if p.sid % 2}
    talk(bench, peers, texts, length=30)
    for peer in peers:
        first = peer.plain(1 if peer.sid in texts else 20)
        bench.command(open_session(peer.sid, tokens=peer.prompt, law=SAMPLED, first=first), ms=3.0 * peer.sid)
    bench.run(60_000)
    return bench, peers


@settings(max_examples=12)
@given(
    pages=st.integers(18, 40), prompts=st.lists(st.integers(1, 36), min_size=2, max_size=7), chunk=st.integers(1, 20)
)
def test_few_pages_change_no_text_and_lose_nothing(pages: int, prompts: list[int], chunk: int) -> None:
    bench, peers = lived(pages, prompts, chunk=chunk)
    assert not bench.events(Lost)
    assert not bench.events(Refused)
    assert sorted(opened.sid for opened in bench.events(TargetOpened)) == [peer.sid for peer in peers]
    for peer in peers:
        assert peer.output[:30] == reference(MODEL, 30, law=SAMPLED, prompt=peer.prompt)
    assert bench.pool.memory.free == pages
    assert bench.runner.resident_tokens == 0


@pytest.mark.parametrize("pages", [18, 24])
def test_the_pages_of_that_test_do_run_out(pages: int) -> None:
    bench, _ = lived(pages, [30, 20, 36, 8, 30], chunk=20)
    assert counts(bench)["preempted"] >= 2


def test_a_session_that_comes_back_to_wrong_pages_is_noticed() -> None:
    """The planted bug: what a preempted session finds again in the cache is not its own text."""

    class Mixing(Checked):
        def __init__(self, runner: Any) -> None:
            super().__init__(runner)
            self._emptied: set[int] = set()

        def truncate(self, slot: int, length: int) -> None:
            self._runner.truncate(slot, length)
            if length == 0:
                self._emptied.add(slot)

        def adopt(self, slot: int, tokens: Tokens) -> int:
            if slot not in self._emptied or self._runner.memory.free < 1:
                return int(self._runner.adopt(slot, tokens))
            self._runner.forward([Rows(slot, (0,) * 10, 0)])
            return 10

    bench, peers = Bench(pages=6, gamma_max=2, wrap=Mixing), [Peer(sid, prompt=(sid,) * 15) for sid in (1, 2, 3)]
    bench.command(*(open_session(p.sid, tokens=p.prompt, first=p.plain(40), max_output=40) for p in peers))
    talk(bench, peers, {}, length=40)
    with pytest.raises(InvalidField, match="wanted what slot 1 holds there"):
        bench.run(6000)


def test_preempted_sessions_go_before_new_ones() -> None:
    bench = Bench(pages=6, gamma_max=2, max_waiting=8, wrap=Checked)
    peers = [Peer(sid, prompt=(sid,) * 15) for sid in (1, 2, 3, 4)]
    opens = [open_session(p.sid, tokens=p.prompt, first=p.plain(40), max_output=40) for p in peers]
    bench.command(*opens[:3])
    bench.command(replace(opens[3]), ms=500)
    talk(bench, peers, {}, length=40)
    bench.run(6000)
    last = {event.sid: us for us, event in bench.timed_events(Result)}
    assert last[1] < last[2] < last[3] < last[4]
