"""Sessions beyond what fits: they wait in line, in order, up to a bound."""

from __future__ import annotations

import pytest

from foreword.protocol.messages import LoadReport, Refused, Result, TargetOpened
from foreword.protocol.words import RefusalCode
from target_service.core.budget import Budget
from target_service.engine.messages import Events, FromEngine, Status
from tests.unit.target_service.kit import Bench, Peer, open_session


def lasting(sid: int, *, tokens: int, prompt: int = 15) -> tuple[Peer, object]:
    """Return a session that writes so many tokens, and its Open."""
    peer = Peer(sid, prompt=(sid,) * prompt)
    return peer, open_session(sid, tokens=peer.prompt, first=peer.plain(tokens), with_ticket=False)


def close_at_the_end(bench: Bench, peers: dict[int, Peer]) -> None:
    """Close every session with its final Result."""

    def react(message: FromEngine) -> None:
        for event in message.events if isinstance(message, Events) else ():
            if isinstance(event, Result) and event.final:
                bench.command(peers[event.sid].close(), ms=bench.time.us / 1000)

    bench.channel.listeners.append(react)


def test_sessions_beyond_the_bound_are_refused_with_a_time_to_ask_again() -> None:
    bench = Bench(max_sessions=1, max_waiting=2)
    bench.command(*(lasting(sid, tokens=3)[1] for sid in (1, 2, 3, 4)))
    bench.run(100)
    (refused,) = bench.events(Refused)
    assert (refused.sid, refused.code, refused.retry_after_ms) == (4, RefusalCode.FULL, 1000)
    assert "full: 2 sessions wait in line for room, as many as may (max_waiting)" in refused.message
    assert [opened.sid for opened in bench.events(TargetOpened)] == [1]


def test_the_line_is_served_in_order_as_sessions_end() -> None:
    bench = Bench(max_sessions=2, max_waiting=8)
    peers = {}
    for sid in range(1, 7):
        peers[sid], message = lasting(sid, tokens=2)
        bench.command(message)
    close_at_the_end(bench, peers)
    bench.run(1000)
    assert [opened.sid for opened in bench.events(TargetOpened)] == [1, 2, 3, 4, 5, 6]
    assert not bench.events(Refused)
    assert bench.runner.resident_tokens == 0


def test_a_short_session_does_not_pass_a_long_one_that_was_there_before() -> None:
    bench = Bench(pages=4, max_waiting=8, gamma_max=0)  # 64 tokens
    first, message = lasting(1, tokens=9, prompt=30)
    bench.command(message)
    bench.command(lasting(2, tokens=1, prompt=40)[1], lasting(3, tokens=1, prompt=3)[1], ms=1)
    bench.command(first.close(), ms=130)
    bench.run(400)
    assert [opened.sid for opened in bench.events(TargetOpened)] == [1, 2, 3]
    assert bench.timed_events(TargetOpened)[1][0] > 130_000


def test_a_session_in_line_hears_what_it_is_told() -> None:
    bench = Bench(max_sessions=1, max_waiting=8)
    first, message = lasting(1, tokens=50)
    left, later = Peer(2), Peer(3)
    bench.command(message, open_session(2), open_session(3))
    bench.command(left.plain(1), later.plain(1), ms=30)
    bench.command(left.close(), first.close(), ms=90)
    bench.run(300)
    assert [opened.sid for opened in bench.events(TargetOpened)] == [1, 3]
    assert [result.sid for result in bench.events(Result)][-1] == 3
    assert bench.runner.resident_tokens == 5


def test_who_waits_is_reported() -> None:
    bench = Bench(max_sessions=1, max_waiting=8)
    bench.command(*(lasting(sid, tokens=60)[1] for sid in (1, 2, 3)))
    bench.run(1100)
    statuses = [m for _, batch in bench.channel.batches for m in batch if isinstance(m, Status)]
    load = statuses[1].load
    assert load == LoadReport(sessions=3, waiting=2, free_tokens=load.free_tokens, step_us=20_000)


def test_what_can_never_fit_is_refused_for_good() -> None:
    bench = Bench(pages=4, max_waiting=8)
    bench.command(open_session(1, tokens=(1,) * 64))
    bench.run(100)
    (refused,) = bench.events(Refused)
    assert (refused.code, refused.retry_after_ms) == (RefusalCode.TOO_LONG, None)
    assert "tokens: got 64, wanted under 64" in refused.message


def test_the_time_to_ask_again_follows_the_pace_of_the_line() -> None:
    bench = Bench(max_sessions=1, max_waiting=4)
    opens = {sid: lasting(sid, tokens=4) for sid in range(1, 11)}
    bench.command(*(opens[sid][1] for sid in range(1, 5)))
    close_at_the_end(bench, {sid: peer for sid, (peer, _) in opens.items()})
    bench.command(*(opens[sid][1] for sid in range(5, 11)), ms=250)
    bench.run(1000)
    # A session takes 80 ms: three are over, one has room, four wait, and half of these are served in 160 or less.
    assert [(refused.sid, refused.retry_after_ms) for refused in bench.events(Refused)] == [(9, 120), (10, 120)]


@pytest.mark.parametrize("prompt", [31, 200, 1000])
def test_a_close_takes_effect_within_a_step_while_the_prompt_is_read(prompt: int) -> None:
    bench = Bench(budget=Budget(64, 16))
    peer, message = lasting(1, tokens=5, prompt=prompt)
    bench.command(message)
    bench.command(peer.close(), ms=15)
    bench.run(100)
    assert bench.runner.resident_tokens == 0
    assert bench.time.us <= 100_000
    assert not bench.events(Result)
