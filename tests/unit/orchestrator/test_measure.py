"""Windows, parts of a round, and what a scrape shows."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from foreword.acceptance import Verdict
from foreword.protocol.messages import Result, RoundTiming
from foreword.protocol.words import Drafter, ResultKind
from orchestrator.core.state import Emit
from orchestrator.measure.progress import Progress, Totals
from orchestrator.measure.rounds import PartsOfRequest, RoundClock, RoundParts
from orchestrator.measure.window import Window
from orchestrator.metrics import OrchestratorMetrics
from orchestrator.sessions.output import Decided


@given(st.lists(st.integers(-50, 50), min_size=1), st.integers(1, 20), st.floats(0.01, 1.0))
def test_window_quantile_is_that_of_the_newest_values(values: list[int], size: int, share: float) -> None:
    window = Window(size)
    for value in values:
        window.add(value)
    newest = sorted(values[-size:])
    found = window.quantile(share)
    assert found == next(v for v in newest if sum(x <= v for x in newest) >= share * len(newest) - 1e-9)
    assert len(window) == len(newest)


def test_an_empty_window_has_no_quantile() -> None:
    assert Window(3).quantile(0.5) is None


def evidence(timing: RoundTiming) -> Result:
    return Result(1, 1, 0, True, ResultKind.EVIDENCE, (1, 2), (1,), (1.0,), timing=timing)


TIMING = RoundTiming(
    verify_queue_us=100,
    verify_compute_us=20_000,
    block_lag_us=8_500,
    draft_queue_us=50,
    draft_compute_us=8_000,
    evidence_us=150,
)


def test_network_is_what_is_left_of_the_round() -> None:
    clock = RoundClock()
    clock.committed(1_000)
    first = clock.answered(evidence(TIMING), 1_000 + 29_000)
    assert first == RoundParts(50, 8_000, 29_000 - 28_150, 8_500, 100, 20_000, 0)  # evidence is in the step
    clock.committed(30_000 + 400)  # 400 µs of work at the orchestrator, while the draft is at work already
    second = clock.answered(evidence(TIMING), 30_000 + 29_000)
    assert second.host == 400
    assert second.network == 29_000 - 28_150 - 400
    assert sum(part for part in second._replace(block_lag=0) if part is not None) == 29_000


def test_a_block_that_was_begun_earlier_gives_no_network() -> None:
    clock = RoundClock()
    clock.committed(0)
    assert clock.answered(evidence(TIMING), 22_000).network is None


def test_plain_steps_have_no_draft_and_no_network() -> None:
    clock = RoundClock()
    clock.committed(0)
    plain = Result(1, 1, 0, True, ResultKind.PLAIN, (1,), timing=RoundTiming(10, 20_000))
    assert clock.answered(plain, 25_000) == RoundParts(None, None, None, None, 10, 20_000, 0)


def test_summary_has_medians_and_sums_of_what_occurred() -> None:
    parts = PartsOfRequest()
    for host in (1, 2, 30):
        parts.add(RoundParts(None, None, None, None, 5, 6, host))
    assert [(p.name, p.p50_us, p.sum_us) for p in parts.summary()] == [
        ("verify_queue", 5.0, 15.0),
        ("verify_compute", 6.0, 18.0),
        ("host", 2.0, 33.0),
    ]


def test_scrape_shows_rounds_positions_and_parts() -> None:
    registry = CollectorRegistry()
    metrics = OrchestratorMetrics(registry)
    result = Result(1, 1, 0, True, ResultKind.EVIDENCE, (1, 2, None), (1, 5), (1.0, 0.0))
    parts = RoundParts(50, 8_000, None, -300, 100, 20_000, 150)
    for _ in range(3):
        metrics.decided(Decided(Emit((1, 2), Verdict(1, 2), result), gamma=2, late=False, parts=parts))
    plain = Result(1, 2, 2, True, ResultKind.PLAIN, (7,))
    metrics.decided(Decided(Emit((7,), Verdict(0, 7), plain), gamma=2, late=True, parts=parts))
    metrics.event("late_block")
    assert metrics.totals() == Totals(results=4, verifications=3, offered=6, kept=3, late=1)
    text = generate_latest(registry).decode()
    for line in (
        'foreword_rounds_total{kind="evidence"} 3.0',
        'foreword_rounds_total{kind="plain"} 1.0',
        "foreword_fallback_total 1.0",
        'foreword_draft_tokens_per_pos_total{position="1"} 3.0',
        'foreword_accepted_tokens_per_pos_total{position="0"} 3.0',
        'foreword_accepted_tokens_per_pos_total{position="1"} 0.0',
        'foreword_gamma_bucket{le="2.0"} 4.0',
        'foreword_gamma_bucket{le="1.0"} 0.0',
        'foreword_round_seconds_sum{part="verify_compute"} 0.08',
        'foreword_round_seconds_bucket{le="0.02",part="verify_compute"} 4.0',
        'foreword_orchestrator_events_total{event="late_block"} 1.0',
    ):
        assert line in text, line


def test_scrape_tells_who_wrote_blocks_and_where() -> None:
    registry = CollectorRegistry()
    metrics = OrchestratorMetrics(registry)
    parts = RoundParts(None, None, None, None, 100, 20_000, 150)
    for drafter, local in ((Drafter.LOOKUP, True), (Drafter.LOOKUP, False), (Drafter.MODEL, False)):
        result = Result(1, 1, 0, False, ResultKind.EVIDENCE, (1, None), (1,), (0.0,), drafter=drafter)
        metrics.decided(Decided(Emit((1,), Verdict(0, 1), result), gamma=0, late=False, parts=parts, local=local))
    text = generate_latest(registry).decode()
    for labels in ('"lookup",place="target"', '"lookup",place="draft"', '"model",place="draft"'):
        assert f"foreword_blocks_total{{drafter={labels}}} 1.0" in text


def test_a_round_after_local_candidates_lasts_from_its_commit() -> None:
    """No draft knew of their verdict before it."""
    clock = RoundClock()
    clock.committed(0)
    clock.answered(evidence(RoundTiming(10, 20_000)), 25_000)
    clock.committed(25_500)
    parts = clock.answered(evidence(TIMING), 60_000)
    assert parts.host == 0
    others = (parts.draft_queue, parts.draft_compute, parts.verify_queue, parts.verify_compute, parts.network)
    assert sum(us or 0 for us in others) == 34_500


def test_progress_tells_rates_since_the_last_look() -> None:
    progress = Progress(0)
    assert progress.look(Totals(), 1_000_000) is None
    line = progress.look(Totals(results=20, verifications=10, offered=40, kept=30, late=1), 3_000_000)
    assert line == {
        "tokens_per_s": 25.0,
        "drafted_per_s": 20.0,
        "accepted_per_s": 15.0,
        "late_blocks": 1,
        "acceptance_length": 4.0,
        "acceptance_rate": 0.75,
    }
    assert progress.look(Totals(results=20, verifications=10, offered=40, kept=30, late=1), 4_000_000) is None
    plain = progress.look(Totals(results=25, verifications=10, offered=40, kept=30, late=1), 5_000_000)
    assert plain == {"tokens_per_s": 5.0, "drafted_per_s": 0.0, "accepted_per_s": 0.0, "late_blocks": 0}


def test_window_follows_a_long_stream() -> None:
    window, chance = Window(64), random.Random(1)
    values = [chance.randrange(1000) for _ in range(5000)]
    for value in values:
        window.add(value)
    assert window.quantile(0.95) == sorted(values[-64:])[60]
