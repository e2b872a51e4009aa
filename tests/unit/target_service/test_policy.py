"""When a step starts: the policies alone, and in an engine on virtual time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.protocol.messages import Result, VerdictNotice
from target_service.core.estimates import Emitted, Replies, StepTimes
from target_service.core.policy import (
    Arrival,
    Immediate,
    Lockstep,
    Part,
    StartNow,
    StepPolicy,
    StepPolicyName,
    WaitUntil,
    Worthwhile,
    step_policy,
)
from target_service.engine.messages import Answers, Events, FromEngine
from tests.unit.target_service.kit import Bench, Peer, open_session, ticket

STEP_US = 20_000.0


def flat(rows: int) -> float:
    return STEP_US


def arrival(
    due_us: int,
    *,
    tokens: float = 3.0,
    rows: int = 5,
    limit_us: int | None = 100_000,
    reply_us: int | None = None,
) -> Arrival:
    return Arrival(Part(rows, tokens), due_us, limit_us, reply_us)


READY = Part(5, 3.0)


@pytest.mark.parametrize("waiting", [[], [arrival(1)], [arrival(50_000)] * 3])
def test_immediate_never_waits(waiting: list[Arrival]) -> None:
    assert Immediate().decide(0, READY, waiting, step_us=flat) == StartNow()


def test_lockstep_waits_for_everybody_within_the_limits() -> None:
    policy = Lockstep()
    waiting = [arrival(5_000, limit_us=30_000), arrival(1_000, limit_us=40_000), arrival(9_000, limit_us=None)]
    assert policy.decide(0, READY, waiting, step_us=flat) == WaitUntil(40_000)
    assert policy.decide(35_000, READY, waiting, step_us=flat) == WaitUntil(40_000)
    assert policy.decide(40_000, READY, waiting, step_us=flat) == StartNow()
    assert policy.decide(0, READY, [], step_us=flat) == StartNow()


@pytest.mark.parametrize(
    ("due_us", "tokens", "expected"),
    [
        (9_000, 3.0, WaitUntil(9_000)),  # 3·(20 - 9) > 3·9
        (11_000, 3.0, StartNow()),  # 3·(20 - 11) < 3·11
        (11_000, 6.0, WaitUntil(11_000)),  # 6·(20 - 11) > 3·11
        (21_000, 99.0, StartNow()),  # comes no sooner than the next step
    ],
)
def test_waiting_must_be_worth_it(due_us: int, tokens: float, expected: object) -> None:
    assert Worthwhile().decide(0, READY, [arrival(due_us, tokens=tokens)], step_us=flat) == expected


@pytest.mark.parametrize(
    ("due_us", "reply_us", "tokens", "expected"),
    [
        (19_000, 19_000, 30.0, WaitUntil(19_000)),  # in step 19 + 20 ms, in turns 20 + 20: 30·(1 + 3·1) > 3·19
        (19_000, 20_000, 30.0, StartNow()),  # in step no shorter than in turns: 30·1 < 3·19
        (12_000, 12_000, 1.9, WaitUntil(12_000)),  # 1.9·20 > 3·12, for nobody loses more than a step
        (12_000, 12_000, 1.7, StartNow()),  # 1.7·20 < 3·12: they can wait for the others instead
        (16_000, 16_000, 3.1, WaitUntil(16_000)),  # 3.1·(4 + 3·4) > 3·16
        (16_000, 16_000, 2.9, StartNow()),  # 2.9·(4 + 3·4) < 3·16
        (2_000, 1_000, 2.0, WaitUntil(2_000)),  # 2·20 > 3·2
        (20_000, 12_000, 99.0, StartNow()),  # comes no sooner than the next step
    ],
)
def test_groups_that_take_turns_are_brought_into_step(
    due_us: int, reply_us: int, tokens: float, expected: object
) -> None:
    waiting = [arrival(due_us, reply_us=reply_us, tokens=tokens)]
    assert Worthwhile().decide(0, READY, waiting, step_us=flat) == expected


def test_leases_make_a_round_in_step_worth_less() -> None:
    """One of 12 + 20 ms brings 6 tokens, one in turns 6 and those of the lease once more in 20 + 20."""
    waiting = [arrival(12_000, reply_us=12_000)]
    assert Worthwhile().decide(0, Part(2, 3.5), waiting, step_us=flat) == WaitUntil(12_000)  # 3·20 > 3.5·12
    half = Part(2, 3.5, leased=1.5)  # 3·(8 + 3·(40 - 32·(1 + 1.5/6.5))) < 3.5·12
    assert Worthwhile().decide(0, half, waiting, step_us=flat) == StartNow()


def test_groups_stay_apart_where_a_common_step_is_as_long_as_both() -> None:
    waiting = [arrival(12_000, reply_us=12_000)]
    assert Worthwhile().decide(0, READY, waiting, step_us=lambda rows: 4_000.0 * rows) == StartNow()


def test_several_that_come_soon_are_worth_more_than_one() -> None:
    policy = Worthwhile()
    one = arrival(12_000)
    assert policy.decide(0, READY, [one], step_us=flat) == StartNow()
    assert policy.decide(0, READY, [one, one], step_us=flat) == WaitUntil(12_000)


def test_rows_that_lengthen_the_step_count_against_waiting() -> None:
    def steep(rows: int) -> float:
        return STEP_US + 1_000.0 * rows

    policy = Worthwhile()
    assert policy.decide(0, READY, [arrival(9_000, rows=1)], step_us=steep) == WaitUntil(9_000)
    assert policy.decide(0, READY, [arrival(9_000, rows=20)], step_us=steep) == StartNow()


def test_nobody_waits_while_step_times_are_unknown() -> None:
    assert Worthwhile().decide(0, READY, [arrival(10)], step_us=lambda rows: 0.0) == StartNow()


@given(
    now=st.integers(0, 10**6),
    ready=st.floats(0.1, 100.0),
    waiting=st.lists(st.tuples(st.integers(0, 50_000), st.floats(0.1, 20.0)), max_size=8),
)
def test_a_wait_ends_before_the_step_would_have(now: int, ready: float, waiting: list[tuple[int, float]]) -> None:
    arrivals = [arrival(now + delay, tokens=tokens, limit_us=now + delay + 1) for delay, tokens in waiting]
    decision = Worthwhile().decide(now, Part(1, ready), arrivals, step_us=flat)
    assert decision == StartNow() or (isinstance(decision, WaitUntil) and now <= decision.at_us < now + STEP_US)


def test_every_name_has_its_policy() -> None:
    names = [StepPolicyName.IMMEDIATE, StepPolicyName.LOCKSTEP, StepPolicyName.WORTHWHILE]
    assert [type(step_policy(name)) for name in names] == [Immediate, Lockstep, Worthwhile]


def two_sessions(policy: StepPolicy, *, apart_ms: float, offset_ms: float = 0.0, rounds: int = 20) -> float:
    """Run two sessions whose drafts take 8 ms and 8 ms + `apart_ms`, the second begun `offset_ms` later.

    Returns tokens a microsecond.
    """
    bench = Bench(policy=policy)
    peers = {1: Peer(1), 2: Peer(2)}
    bench.command(open_session(1, max_output=4000), open_session(2, max_output=4000))

    told_ms = {}
    """When the drafts, of whom each has a ticket, had their verdicts: Results may wait behind them."""

    def start(peer: Peer, ms: float, draft_ms: float) -> None:
        bench.command(peer.speculate(wait_ms=40.0), ms=ms + 1)
        bench.block(peer.block((1, 2, 3, 4)), ms=draft_ms + 8 + (apart_ms if peer.sid == 2 else 0.0))

    def react(message: FromEngine) -> None:
        if isinstance(message, Answers):
            told_ms.update({a.ticket: bench.time.us / 1000 for a in message.answers if isinstance(a, VerdictNotice)})
        for event in message.events if isinstance(message, Events) else ():
            if isinstance(event, Result):
                peer, now_ms = peers[event.sid], bench.time.us / 1000
                peer.take(event)
                if bench.time.us < rounds * 60_000:
                    start(peer, now_ms, told_ms.get(ticket(event.sid), now_ms))

    bench.channel.listeners.append(react)
    for peer in peers.values():
        begun_ms = 30.0 + (offset_ms if peer.sid == 2 else 0.0)
        start(peer, begun_ms, begun_ms)
    bench.run(200 + rounds * 60)
    return sum(len(peer.output) for peer in peers.values()) / bench.timed_events(Result)[-1][0]


def test_close_arrivals_share_a_step() -> None:
    """Alone, each waits while the other's step runs: 40 ms a round. Together: 8 + 1 + 20 ms."""
    alone_rate = two_sessions(Immediate(), apart_ms=1.0)
    together_rate = two_sessions(Worthwhile(), apart_ms=1.0)
    assert together_rate > 1.3 * alone_rate


@pytest.mark.parametrize("offset_ms", [5.0, 11.0, 19.0])
def test_sessions_that_began_apart_come_into_step(offset_ms: float) -> None:
    """In turns, a round takes 40 ms; in step, 8 + 20."""
    in_turns = two_sessions(Immediate(), apart_ms=0.0, offset_ms=offset_ms)
    in_step = two_sessions(Worthwhile(), apart_ms=0.0, offset_ms=offset_ms)
    assert in_step > 1.35 * in_turns


def test_distant_arrivals_do_not() -> None:
    """In step, both would take 8 + 15 + 20 ms a round."""
    apart_rate = two_sessions(Worthwhile(), apart_ms=15.0)
    lockstep_rate = two_sessions(Lockstep(), apart_ms=15.0)
    assert apart_rate > 1.05 * lockstep_rate


def test_replies_know_when_a_block_is_due() -> None:
    replies = Replies(window=4)
    assert replies.due(0) is None
    for us in (900, 5_000, 6_000, 7_000, 8_000):  # the first is forgotten
        replies.add(us)
    assert replies.due(-100) == 7_000
    assert replies.due(5_500) == 7_000
    assert replies.due(7_000) == 8_000
    assert replies.due(8_000) == 8_250  # hardly longer than the longest
    assert replies.due(8_250) is None
    assert Replies(window=1).due(-1) is None


@given(st.lists(st.integers(-1000, 1000), max_size=80), st.integers(-1000, 1000))
def test_due_replies_are_among_the_last_and_still_possible(values: list[int], elapsed: int) -> None:
    replies = Replies(window=16)
    for value in values:
        replies.add(value)
    left = sorted(value for value in values[-16:] if value > elapsed)
    due = replies.due(elapsed)
    about = max(values[-16:], default=-1000) + 250
    assert due == (left[len(left) // 2] if left else about if values and elapsed < about else None)


def test_emitted_follows_the_mean() -> None:
    emitted = Emitted(start=2.0)
    for _ in range(100):
        emitted.add(5)
    assert emitted.mean == pytest.approx(5.0, abs=0.01)


def test_sessions_that_take_turns_find_each_other_although_no_step_held_them_all() -> None:
    """9 and 23 in turns: the curve ends at 115 rows, and what it says of 160 decides whether they ever meet."""
    times = StepTimes()
    for rows, us in ((1, 20_100), (16, 20_200), (45, 20_850), (115, 21_190)):
        times.add(rows, 100, step_us=us)
    others = [Arrival(Part(5, 3.0), due_us=15_500, limit_us=None, reply_us=17_200)] * 23
    decision = step_policy(StepPolicyName.WORTHWHILE).decide(0, Part(45, 27.8), others, step_us=times.step_us)
    assert decision == WaitUntil(15_500)


def test_a_first_step_that_was_slow_does_not_keep_its_size_away() -> None:
    times = StepTimes()
    for rows, us in ((1, 20_000), (16, 20_200), (64, 21_000)):
        for _ in range(3):
            times.add(rows, 100, step_us=us)
    before = times.step_us(160)
    times.add(160, 100, step_us=60_000)  # its kernels were built
    assert times.step_us(160) == before
    for _ in range(2):
        times.add(160, 100, step_us=22_000)
    assert times.step_us(160) == 22_000
    assert [point.rows for point in times.curve()] == [1, 16, 64, 160]


def test_the_cost_curve_tells_rows_and_contexts_apart() -> None:
    times = StepTimes()
    for context, us in ((30, 20_000), (200, 21_000), (900, 25_000), (1_000, 27_000), (1_030, 30_000)):
        times.add(4, context, step_us=us)
    times.add(16, 900, step_us=29_000)
    assert [(p.rows, p.context, p.step_us) for p in times.curve()] == [
        (4, 30, 20_000),
        (4, 900, 25_000),
        (4, 1_030, 30_000),
        (16, 900, 29_000),
    ]
    assert times.step_us(4) == 25_000, "the target's own curve is over all contexts"


def test_step_times_are_medians_between_which_the_curve_is_straight() -> None:
    times = StepTimes()
    assert times.step_us(8) == 0.0
    for us in (20_000, 90_000, 20_000):  # one step was interrupted
        times.add(4, 100, step_us=us)
        times.add(16, 100, step_us=20_000)
        times.add(32, 100, step_us=36_000)
    assert times.step_us(1) == 20_000
    assert times.step_us(24) == 28_000
    assert times.step_us(60) == pytest.approx(36_000 + 28 * 16_000 / 28)
    assert [(p.rows, p.step_us) for p in times.curve()] == [(4, 20_000), (16, 20_000), (32, 36_000)]
