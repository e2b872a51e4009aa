"""How steps are shared between those who decode and those who read, and between the sessions of each kind."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.models.synthetic import SyntheticModel
from foreword.protocol.messages import Result, TargetOpened
from target_service.core.budget import Budget, decode_rows, decoders, pieces, prompt_rows
from target_service.engine.messages import Events, FromEngine, StepReport
from tests.unit.target_service.kit import Bench, Peer, open_session

ROWS = st.lists(st.integers(1, 9), min_size=1, max_size=12)


def flat(rows: int) -> float:
    return 20_000.0


def linear(rows: int) -> float:
    return 20_000.0 + 1_000.0 * rows


@given(rows=ROWS, most=st.integers(1, 40))
def test_decoders_stay_within_their_rows_and_nobody_waits_for_ever(rows: list[int], most: int) -> None:
    served = [0] * len(rows)
    for step in range(1, 3 * len(rows) + 1):
        chosen = decoders(rows, served, most=most)
        assert chosen == sorted(set(chosen))
        assert sum(rows[i] for i in chosen) <= most or len(chosen) == 1
        for index in chosen:
            served[index] = step
    assert min(served) > 2 * len(rows) - 1, "each had a part in the last n steps"


@given(unread=st.lists(st.integers(1, 300), min_size=1, max_size=9), most=st.integers(1, 200))
def test_pieces_use_all_rows_that_there_is_something_for(unread: list[int], most: int) -> None:
    given_rows = pieces(unread, most=most)
    assert sum(given_rows) == min(most, sum(unread))
    assert all(0 <= rows <= lacks for rows, lacks in zip(given_rows, unread, strict=True))
    assert given_rows[0] >= min(unread[0], most // 2)


def test_a_short_prompt_passes_a_long_one_and_takes_half_at_most() -> None:
    assert pieces([4000, 3000, 20], most=100) == [50, 30, 20]
    assert pieces([10, 3000], most=100) == [10, 90]
    assert pieces([], most=100) == []


@given(
    step_rows=st.integers(8, 64),
    chunk=st.integers(1, 80),
    decode=st.integers(0, 64),
    limit=st.one_of(st.none(), st.floats(1_000, 90_000)),
)
def test_prompts_get_what_is_left_but_at_least_their_share(
    step_rows: int, chunk: int, decode: int, limit: float | None
) -> None:
    budget = Budget(step_rows, chunk, limit)
    decode = min(decode, decode_rows(budget, beside_prompts=True))
    rows = prompt_rows(budget, decode, decoding=True, step_us=linear)
    assert min(chunk, step_rows // 8, 16) <= rows <= chunk
    assert rows + decode <= step_rows
    if limit is not None and rows > 16:
        assert linear(decode + rows) <= max(limit, 2 * linear(decode))
    assert prompt_rows(budget, decode, decoding=False, step_us=linear) == min(chunk, step_rows - decode)


def test_a_flat_step_is_filled_and_a_steep_one_is_kept_to_its_time() -> None:
    budget = Budget(512, 256, 100_000.0)
    assert prompt_rows(budget, 16, decoding=True, step_us=flat) == 256
    assert prompt_rows(budget, 6, decoding=True, step_us=linear) == 74
    assert prompt_rows(budget, 200, decoding=True, step_us=linear) == 220, "twice as long as without"
    assert prompt_rows(budget, 0, decoding=True, step_us=lambda rows: 1e6) == 16, "they get on whatever it takes"


def gaps_ms(bench: Bench, sid: int, *, from_ms: float, to_ms: float) -> list[float]:
    """Return the times between two tokens of a session."""
    at = [us / 1000 for us, event in bench.timed_events(Result) if event.sid == sid]
    return [later - earlier for earlier, later in pairwise(at) if from_ms <= earlier and later <= to_ms]


@pytest.mark.parametrize(
    ("budget", "longest_ms"),
    [
        (Budget(512, 4096), 3_000.0),  # a whole prompt in one step: what this is about
        (Budget(512, 256), 300.0),
        (Budget(512, 256, 100_000.0), 100.0),
        (Budget(256, 32), 60.0),
    ],
)
def test_tokens_keep_coming_while_a_long_prompt_is_read(budget: Budget, longest_ms: float) -> None:
    """Four sessions decode while 4k tokens are read; a step costs 20 ms and 1 ms for every row over 16."""
    model = SyntheticModel(step_ms=20.0, slope_ms=1.0, knee=16, context=8192)
    bench, peers = Bench(model=model, budget=budget), [Peer(sid) for sid in (1, 2, 3, 4)]
    bench.command(*(open_session(p.sid, max_output=4000, first=p.plain(4000), with_ticket=False) for p in peers))
    late, started = Peer(5, prompt=tuple((i * i) % 64 for i in range(4096))), 500.0
    bench.command(open_session(5, tokens=late.prompt, first=late.plain(5)), ms=started)
    ends: list[float] = []

    def react(message: FromEngine) -> None:
        for event in message.events if isinstance(message, Events) else ():
            if isinstance(event, TargetOpened) and event.sid == 5:
                ends.append(bench.time.us / 1000)
                bench.command(*(peer.close() for peer in peers), ms=ends[0])

    bench.channel.listeners.append(react)
    bench.run(20_000)
    gaps = gaps_ms(bench, 1, from_ms=started + 1000, to_ms=ends[0])  # by then step times are known
    if budget.prompt_rows < 4096:
        assert max(gaps) <= longest_ms + 0.001
        assert len(gaps) >= 10
        assert ends[0] - started <= 1.35 * 4096, "and reading takes hardly longer than it does alone"
    else:
        assert ends[0] - started > longest_ms
    reports = [m for _, batch in bench.channel.batches for m in batch if isinstance(m, StepReport)]
    assert max(report.rows for report in reports) <= max(512, budget.step_rows)


def test_decoding_beyond_the_budget_takes_turns() -> None:
    """Twelve sessions with blocks of four in steps of 20 rows: each is in every third step, and no step is larger."""
    bench, peers = Bench(budget=Budget(20, 16), gamma_max=4), {sid: Peer(sid) for sid in range(1, 13)}
    bench.command(*(open_session(sid, max_output=400) for sid in peers))

    def react(message: FromEngine) -> None:
        for event in message.events if isinstance(message, Events) else ():
            if isinstance(event, Result):
                peer = peers[event.sid]
                peer.take(event)
                bench.command(peer.speculate(), ms=bench.time.us / 1000)
                bench.block(peer.block((1, 2, 3, 4)), ms=bench.time.us / 1000)

    bench.channel.listeners.append(react)
    for peer in peers.values():
        bench.command(peer.speculate(), ms=200)
        bench.block(peer.block((1, 2, 3, 4)), ms=200)
    stop_after(bench, steps=60)
    reports = [m for _, batch in bench.channel.batches for m in batch if isinstance(m, StepReport) and m.verified]
    assert {report.rows for report in reports} == {20}
    for sid in peers:
        assert set(gaps_ms(bench, sid, from_ms=250, to_ms=1e9)) == {60.0}


def test_prompts_are_not_starved_by_decoding_that_fills_every_step() -> None:
    bench, peers = Bench(budget=Budget(16, 16), gamma_max=0), {sid: Peer(sid) for sid in range(1, 31)}
    bench.command(*(open_session(sid, first=peer.plain(4000), max_output=4000) for sid, peer in peers.items()))
    late = Peer(31, prompt=tuple(range(40, 62)))
    bench.command(open_session(31, tokens=late.prompt, first=late.plain(1)), ms=1500)
    stop_after(bench, steps=100)
    ((opened_us, _),) = [(us, event) for us, event in bench.timed_events(TargetOpened) if event.sid == 31]
    assert opened_us <= 1_520_000 + 11 * 20_000, "21 rows by two a step"
    at = [us for us, event in bench.timed_events(Result) if event.sid == 1]
    assert max(later - earlier for earlier, later in pairwise(at)) <= 3 * 20_000


class Enough(Exception):
    """As many steps as were wanted."""


def stop_after(bench: Bench, *, steps: int) -> None:
    """Run an engine that never rests."""
    left = iter(range(steps))

    def count(message: FromEngine) -> None:
        if isinstance(message, StepReport) and next(left, None) is None:
            raise Enough

    bench.channel.listeners.append(count)
    with pytest.raises(Enough):
        bench.run(10_000)
