"""Prefix reuse in the engine: what is skipped, for whom, and that drafts do not spoil it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from foreword.models.synthetic import SyntheticModel
from foreword.protocol.messages import Result, TargetOpened, Tokens
from foreword.runner.port import Rows
from target_service.core.budget import Budget
from target_service.engine.messages import Events, FromEngine, PrefixHits, Status, StepReport
from tests.unit.target_service.kit import Bench, Peer, open_session, reference

LONG: Tokens = tuple((7 * i + i // 11) % 64 for i in range(1024))


def prompt_rows(bench: Bench) -> int:
    return sum(m.prompt_rows for _, batch in bench.channel.batches for m in batch if isinstance(m, StepReport))


def hits(bench: Bench) -> PrefixHits:
    found = [m.prefixes for _, batch in bench.channel.batches for m in batch if isinstance(m, Status)]
    return PrefixHits(sum(p.queried for p in found), sum(p.hit for p in found))


def opened_tokens(bench: Bench) -> dict[int, int]:
    return {event.sid: event.cached_tokens for event in bench.events(TargetOpened)}


def converse(bench: Bench, peer: Peer, *, length: int, own: Tokens | None = None, slip: int = 3) -> None:
    """Let a session run for `length` tokens and close it; with its own text `own` it drafts, every `slip`th wrong."""

    def react(message: FromEngine) -> None:
        for event in message.events if isinstance(message, Events) else ():
            if isinstance(event, Result) and event.sid == peer.sid:
                peer.take(event)
                ms, base = bench.time.us / 1000, peer.sequence.base
                if base >= length:
                    bench.command(peer.close(), ms=ms)
                elif event.final and own is None:
                    bench.command(peer.plain(1), ms=ms + 1)
                elif event.final and own is not None:
                    right = [t if (base + i) % slip else (t + 1) % 64 for i, t in enumerate(own[base : base + 4])]
                    bench.command(peer.speculate(), ms=ms + 1)
                    bench.block(peer.block(tuple(right)), ms=ms + 2)

    bench.channel.listeners.append(react)


def test_the_second_request_with_the_same_beginning_skips_nearly_all_of_it() -> None:
    bench, first, second = Bench(), Peer(1, prompt=(*LONG, 1)), Peer(2, prompt=(*LONG, 2))
    bench.command(open_session(1, tokens=first.prompt, first=first.plain(2)))
    bench.run(400)
    assert prompt_rows(bench) == 1024
    bench.command(open_session(2, tokens=second.prompt, first=second.plain(6)), ms=401)
    bench.run(600)
    assert opened_tokens(bench) == {1: 0, 2: 1024}
    assert prompt_rows(bench) - 1024 <= 0.05 * 1024
    assert tuple(r.emit[0] for r in bench.events(Result) if r.sid == 2) == reference(
        bench.model, 6, prompt=second.prompt
    )
    bench.check_pages()


@pytest.mark.parametrize("salts", [(b"a", b"b"), (b"", b"a")])
def test_sessions_of_other_salts_share_nothing(salts: tuple[bytes, bytes]) -> None:
    bench = Bench()
    for sid, salt in enumerate(salts, 1):
        bench.command(replace(open_session(sid, tokens=LONG), cache_salt=salt), ms=300 * (sid - 1))
    bench.run(700)
    assert opened_tokens(bench) == {1: 0, 2: 0}


def test_equal_prompts_that_come_together_are_read_once() -> None:
    bench = Bench(budget=Budget(512, 100))
    prompts = {sid: (*LONG[: 500 + sid], 60 + sid) for sid in (1, 2, 3)}
    bench.command(*(open_session(sid, tokens=prompt, with_ticket=False) for sid, prompt in prompts.items()))
    bench.run(500)
    assert opened_tokens(bench) == {1: 0, 2: 496, 3: 496}
    assert prompt_rows(bench) <= 501 + 2 * 8
    bench.check_pages()


def test_nobody_waits_for_a_reader_that_is_gone() -> None:
    bench = Bench(budget=Budget(512, 100))
    reader = Peer(1, prompt=LONG)
    bench.command(open_session(1, tokens=LONG), open_session(2, tokens=LONG))
    bench.command(reader.close(), ms=90)
    bench.run(500)
    assert opened_tokens(bench) == {2: 496}, "the five pieces that were read, in whole pages"


def test_a_prompt_whose_pages_are_all_there_opens_without_a_step() -> None:
    bench = Bench()
    bench.command(open_session(1, tokens=LONG))
    bench.command(open_session(2, tokens=(*LONG[:512], 1)), ms=200)
    bench.run(300)
    assert [us for us, event in bench.timed_events(TargetOpened) if event.sid == 2] == [200_000]


@pytest.mark.parametrize("drafted", [False, True])
def test_a_conversation_goes_on_where_it_ended_with_drafts_and_without(drafted: bool) -> None:
    """Rejected candidates lay between the tokens that were kept, and none of them is found again."""
    bench, peer = Bench(), Peer(1, prompt=LONG[:100])
    own = reference(bench.model, 90, prompt=peer.prompt)
    bench.command(open_session(1, tokens=peer.prompt, max_output=100, first=peer.plain(1)))
    converse(bench, peer, length=80, own=own if drafted else None)
    bench.run(3000)
    assert peer.output[:80] == own[:80]
    turn = (*peer.prompt, *peer.output, 5, 6, 7)
    other = Peer(2, prompt=turn)
    bench.command(open_session(2, tokens=turn, first=other.plain(4)), ms=3001)
    bench.run(5000)
    found = opened_tokens(bench)[2]
    held = 100 + len(peer.output) - 1  # the last token was never in the cache
    assert found == held // 16 * 16
    assert tuple(r.emit[0] for r in bench.events(Result) if r.sid == 2) == reference(bench.model, 4, prompt=turn)
    assert hits(bench) == PrefixHits(queried=100 + len(turn), hit=found)
    bench.check_pages()


class Hasty:
    """A runner that takes candidates for committed: the planted bug."""

    def __init__(self, runner: object) -> None:
        self._runner = runner
        self._texts: dict[int, Tokens] = {}

    def __getattr__(self, name: str) -> object:
        return getattr(self._runner, name)

    def forward(self, batch: list[Rows]) -> object:
        for rows in batch:
            held = self._runner.length(rows.slot)  # type: ignore[attr-defined]
            self._texts[rows.slot] = (*self._texts.get(rows.slot, ())[:held], *rows.tokens)
        found = self._runner.forward(batch)  # type: ignore[attr-defined]
        for rows in batch:
            self._runner.commit(rows.slot, self._texts[rows.slot])  # type: ignore[attr-defined]
        return found


def test_a_text_that_was_rejected_would_be_noticed_in_the_index() -> None:
    def found(wrap: object) -> int:
        bench, peer = Bench(wrap=wrap, page_size=4, model=SyntheticModel(step_ms=20.0)), Peer(1, prompt=LONG[:15])  # type: ignore[arg-type]
        bench.command(open_session(1, tokens=peer.prompt))
        bench.command(peer.speculate(gamma=8), ms=30)
        bench.block(peer.block((63, 62, 61, 60, 59)), ms=31)
        bench.run(100)
        bench.command(open_session(2, tokens=(*peer.prompt, 63, 62, 61, 60, 59, 58)), ms=101)
        bench.run(200)
        return opened_tokens(bench)[2]

    assert found(lambda runner: runner) == 12
    assert found(Hasty) == 20


def test_a_stop_text_leaves_what_is_behind_it_out_of_the_cache() -> None:
    """The orchestrator closes in a lease's stretch, with a final length before tokens that are in the cache."""
    bench, peer = Bench(page_size=4), Peer(1, prompt=LONG[:16])
    own = reference(bench.model, 12, prompt=peer.prompt)
    bench.command(open_session(1, tokens=peer.prompt, first=peer.plain(9)))
    bench.run(400)
    assert tuple(result.emit[0] for result in bench.events(Result)) == own[:9]
    bench.command(replace(peer.close(), final_length=5, tokens=own[:5]), ms=401)
    bench.command(open_session(2, tokens=(*peer.prompt, *own)), ms=600)
    bench.run(800)
    assert opened_tokens(bench)[2] == 20, "the full pages of 16 + 5 tokens, and not those of 16 + 9"
    bench.check_pages()


def test_a_stop_text_takes_nothing_back_that_entered_while_the_session_ran() -> None:
    """The final length lies before tokens that Commits have named: their pages are right, and others may hold them."""
    bench, peer = Bench(page_size=4), Peer(1, prompt=LONG[:16])
    own = reference(bench.model, 12, prompt=peer.prompt)
    bench.command(open_session(1, tokens=peer.prompt, first=peer.plain(1)))
    converse(bench, peer, length=99)
    bench.run(400)
    assert len(peer.output) > 8
    bench.command(replace(peer.close(), final_length=5, tokens=()), ms=401)
    bench.command(open_session(2, tokens=(*peer.prompt, *own)), ms=600)
    bench.run(800)
    assert opened_tokens(bench)[2] >= 24
    bench.check_pages()
