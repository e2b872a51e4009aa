"""Verdicts go first: the Results of their step wait a little where nobody waits for them."""

from dataclasses import replace

import pytest

from foreword.protocol.messages import Result, VerdictNotice
from target_service.core.precedence import LONGEST_US, results_wait_us
from tests.unit.target_service.kit import Bench, Peer, open_session

STEP_US = 20_000


@pytest.mark.parametrize(
    ("lags_us", "expected"),
    [
        ([], 0),
        ([0], 0),
        ([-3_000, 9_000], 0),
        ([2_000], 500),
        ([9_000, 2_000, 4_000], 500),
        ([100_000], LONGEST_US),
    ],
)
def test_the_block_that_was_closest_to_its_commit_decides(lags_us: list[int], expected: int) -> None:
    assert results_wait_us(lags_us) == expected


def about(us: int) -> object:
    """Return what equals one time that virtual sleep has rounded up."""
    return pytest.approx([us], abs=2)


def sent(bench: Bench, kind: type) -> list[int]:
    """Return when batches with such an answer or event left, in microseconds."""
    held = [
        (us, getattr(m, "answers", ()) or getattr(m, "events", ()))
        for us, batch in bench.channel.batches
        for m in batch
    ]
    return [us for us, values in held if any(isinstance(value, kind) for value in values)]


def test_results_wait_for_a_part_of_what_the_commit_waited_for_the_block() -> None:
    bench, peer = Bench(), Peer(1)
    bench.command(open_session(1))
    bench.command(peer.speculate(), ms=30)
    bench.block(peer.block((1, 2)), ms=32)
    bench.run(200)
    assert sent(bench, VerdictNotice) == about(32_000 + STEP_US)
    assert sent(bench, Result) == about(32_000 + STEP_US + 500)


def test_results_of_a_commit_that_came_last_leave_with_the_verdict() -> None:
    bench, peer = Bench(), Peer(1)
    bench.command(open_session(1))
    bench.command(replace(peer.speculate(), sid=1), ms=38)
    bench.block(peer.block((1, 2)), ms=30)
    bench.run(200)
    assert sent(bench, Result) == sent(bench, VerdictNotice) == about(38_000 + STEP_US)


def test_results_leave_when_anything_comes_meanwhile() -> None:
    bench, peer = Bench(), Peer(1)
    bench.command(open_session(1))
    bench.command(peer.speculate(), ms=30)
    bench.block(peer.block((1, 2)), ms=50)
    bench.command(open_session(2), ms=70.4)
    bench.run(200)
    assert sent(bench, Result)[:1] == about(70_400)


def test_results_do_not_wait_where_another_step_can_begin() -> None:
    bench, peer, other = Bench(), Peer(1), Peer(2)
    bench.command(open_session(1), open_session(2))
    bench.command(peer.speculate(), ms=50)
    bench.block(peer.block((1, 2)), ms=60)
    bench.command(other.plain(4), ms=70)
    bench.run(300)
    assert sent(bench, Result)[:1] == sent(bench, VerdictNotice)[:1] == about(60_000 + STEP_US)


def test_results_of_a_session_without_a_block_do_not_wait() -> None:
    bench, peer, other = Bench(), Peer(1), Peer(2)
    bench.command(open_session(1), open_session(2))
    bench.command(peer.speculate(), ms=50)
    bench.command(other.plain(1), ms=60)
    bench.block(peer.block((1, 2)), ms=60)
    bench.run(300)
    assert sent(bench, Result)[:1] == sent(bench, VerdictNotice)[:1] == about(60_000 + STEP_US)
