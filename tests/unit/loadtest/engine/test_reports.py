"""From times to figures, tables, bars and plots, part by part; and where a pass spends its time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest

from foreword.models.dtype import Dtype
from loadtest.bench.progress import Progress
from loadtest.engine import batch, one, passes, prefix, prompt
from loadtest.engine.arms import DTYPES, FOREWORD, WARM_UP, Arm, written
from loadtest.engine.passes import BLOCK, Inside, Shape, shapes_of
from loadtest.engine.plan import Part, Plan
from loadtest.engine.prefix import Pair
from loadtest.engine.profile import AROUND, ATTENTION, LINEAR, PASS, REST, profiled
from loadtest.engine.prompt import Arrivals, Trial, gaps
from loadtest.engine.rates import Output
from loadtest.engine.report import Report, findings_of
from loadtest.engine.sessions import Steps
from loadtest.engine.worker import Environment

STEPS = {dtype: Steps(10.0, 0.5, 0.01) for dtype in DTYPES}
PASSIVE, OURS = Environment


def output(rate: float, *, first: float = 0.5, tokens: int = 21, ids: Sequence[int] = ()) -> Output:
    arrivals = tuple(first + number / rate for number in range(tokens))
    return Output(arrivals[-1], arrivals, tuple(ids))


def one_session() -> Report:
    made = {}
    for dtype in DTYPES:
        made[dtype, FOREWORD] = [[output(rate, first=0.0, ids=(1, 2, 3, 4))] for rate in (30.0, 32.0, 34.0)]
        made[dtype, PASSIVE.value] = [[output(rate, first=0.0, ids=(1, 2, 3, 5))] for rate in (20.0, 20.0, 20.0)]
        made[dtype, OURS.value] = [[output(rate, first=0.0)] for rate in (25.0, 25.0, 25.0)]
    return one.report_of(made, STEPS)


def many_sessions() -> Report:
    rates = {FOREWORD: 10.0, batch.CONTINUOUS[0]: 4.0, batch.CONTINUOUS[1]: 5.0, batch.PADDED: 8.0}
    made: dict[tuple[Dtype, str], list[list[Output]]] = {}
    for dtype in DTYPES:
        made |= {(dtype, name): [[output(rate)] * 16] * 3 for name, rate in rates.items()}
        made |= {(dtype, name): [[output(rate)]] * 3 for name, rate in zip(batch.ALONE, (20.0, 40.0), strict=True)}
    return batch.report_of(made, STEPS, 16)


def timed_passes() -> Report:
    times = {}
    for dtype in DTYPES:
        for shape in shapes_of(dtype):
            row = 0.001 * shape.sessions * shape.rows
            times[shape] = [0.05 + row] * 3
        times[Shape(dtype, 1, 1, OURS)] = [0.04, 0.04, 0.04]
        times[Shape(dtype, 1, BLOCK)] = [0.05, 0.06, 0.08]
    parts = {PASS: 0.05, LINEAR: 0.03, ATTENTION: 0.01, REST: 0.008, AROUND: 0.002}
    inside = Inside(dict.fromkeys(passes.PROFILED, parts), {"temperature 0": 0.0001})
    return passes.report_of(times, {dtype: inside for dtype in DTYPES})


def pair(cached: int, first_s: float = 1.0, second_s: float = 0.1) -> Pair:
    return Pair(
        Output(first_s, (first_s,), prompt_tokens=1048),
        Output(second_s, (second_s,), prompt_tokens=1048, cached_tokens=cached),
    )


def beginnings(with_draft: int = 1024) -> Report:
    return prefix.report_of({0: [pair(1024), pair(1024, 1.2)], 4: [pair(1024), pair(with_draft)]}, 1024)


def long_prompt() -> Report:
    smooth = Trial((0.05,) * 100, (0.2,) * 99 + (0.3,), 8.0)
    stalled = Trial((0.05,) * 100, (0.05,) * 50 + (7.0,), 7.0)
    return prompt.report_of({prompt.IN_PIECES: [smooth], prompt.WHOLE: [stalled]}, Plan())


def test_one_session_is_held_against_the_better_environment() -> None:
    report = one_session()
    figures = report.figures
    assert figures["ratio"]["bfloat16"]["against"] == OURS.value
    assert figures["ratio"]["bfloat16"]["median"] == pytest.approx(32 / 25)
    assert figures["common_tokens"]["float32"] == 3
    assert figures["step_ms"]["float32"] == pytest.approx(50.0)
    assert figures["evidence_ms"]["float32"] == pytest.approx(1.0)
    ((bar,),) = [report.bars]
    assert (bar.bound, bar.holds) == (1.3, False)
    assert "bfloat16" in bar.name


def test_sessions_side_by_side_have_a_bar_over_batches_and_one_over_a_single_sequence() -> None:
    report = many_sessions()
    assert report.figures["over_generate_batch"]["float32"]["against"] == batch.CONTINUOUS[1]
    assert report.figures["over_generate_batch"]["float32"]["median"] == pytest.approx(2.0)
    assert report.figures["over_padded_generate"]["float32"]["median"] == pytest.approx(1.25)
    assert report.figures["over_one_sequence"]["float32"]["median"] == pytest.approx(160 / 40)
    assert [(bar.bound, bar.holds) for bar in report.bars] == [(1.0, True)] * 2 + [(5.0, False)] * 2


def test_a_block_is_held_against_the_quicker_single_row_of_transformers() -> None:
    report = timed_passes()
    ratio = report.figures["float32"]["ratio"]
    assert (ratio["against"], ratio["median"]) == (OURS.value, pytest.approx(1.5))
    assert [(bar.bound, bar.holds) for bar in report.bars] == [(1.25, False), (1.6, True)]
    curve, *profiles, evidence = report.tables
    assert [row[0] for row in curve.rows][:2] == ["1 session, 1 row", "1 session, 2 rows"]
    assert [table.columns[1:] for table in profiles] == [
        ("1 session, 1 row", "1 session, 8 rows", "16 sessions, 1 row")
    ] * 2
    assert evidence.rows == (("temperature 0", pytest.approx(0.1), pytest.approx(0.1)),)


def test_a_beginning_is_as_cached_with_a_draft_as_without() -> None:
    share, apart = beginnings().bars
    assert (share.value, share.holds) == (pytest.approx(1024 / 1048), True)
    assert apart.holds
    assert not beginnings(with_draft=1008).bars[1].holds
    assert not prefix.report_of({0: [pair(960)], 4: [pair(960)]}, 1024).bars[0].holds


def test_gaps_count_for_the_time_that_they_overlap_with() -> None:
    arrivals = [[0.0, 1.0, 2.0, 3.5, 6.0, 7.0], [2.5, 9.0]]
    before, during = gaps(arrivals, begin=1.0, sent=3.0, done=5.0)
    assert before == [1.0]
    assert during == [1.5, 2.5, 6.5]


def test_the_longest_gap_of_both_ways_to_read_is_shown() -> None:
    figures = long_prompt().figures
    assert figures[prompt.IN_PIECES]["during_ms"]["longest"] == pytest.approx(300.0)
    assert figures[prompt.WHOLE]["during_ms"]["longest"] == pytest.approx(7000.0)
    assert figures[prompt.WHOLE]["during_ms"]["median"] == pytest.approx(50.0)
    assert figures[prompt.WHOLE]["gaps_during"] == 51


async def test_who_waits_for_the_slowest_session_is_woken_by_it() -> None:
    arrivals = Arrivals(2)
    waiting = asyncio.ensure_future(arrivals.reach(2))
    for session in (0, 0, 0, 1):
        arrivals.add(session, 0.0)
        await asyncio.sleep(0)
    assert not waiting.done()
    arrivals.add(1, 0.0)
    await waiting
    await arrivals.reach(1)
    assert arrivals.more(2) == 5


async def test_arms_take_turns_after_a_run_that_does_not_count(capsys: pytest.CaptureFixture[str]) -> None:
    from foreword.cli.output import stderr

    runs: list[tuple[str, int]] = []

    def arm(name: str) -> Arm:
        async def write(repeat: int) -> list[Output]:
            runs.append((name, repeat))
            return [output(10.0 + repeat)]

        return Arm(name, Dtype.FLOAT32, write)

    with Progress(stderr()) as progress:
        made = await written([arm("a"), arm("b")], 2, progress, "test")
    assert runs == [("a", WARM_UP), ("b", WARM_UP), ("a", 0), ("b", 0), ("b", 1), ("a", 1)]
    assert [round(outputs[0].decode_rate) for outputs in made[Dtype.FLOAT32, "a"]] == [10, 11]


def every_report() -> list[Report]:
    return [one_session(), many_sessions(), timed_passes(), beginnings(), long_prompt()]


def test_all_parts_make_one_report() -> None:
    findings = findings_of(every_report(), 3)
    assert list(findings.figures) == [part.value for part in Part]
    json.dumps(findings.figures, allow_nan=False)
    json.dumps([bar.json() for bar in findings.bars], allow_nan=False)
    assert len(findings.bars) == 1 + 4 + 2 + 2
    assert all(len(row) == len(table.columns) for table in findings.tables for row in table.rows)
    assert "75%" in findings.notes[-1]


def test_all_parts_are_drawn() -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    figure = Figure()
    draw = findings_of(every_report(), 3).draw
    assert draw is not None
    draw(figure)
    assert len(figure.axes) == len(Part)


class Spender:
    """Spends 3 ms, 2 ms and 1 ms of a pass."""

    spent_ns = (5, 5, 5)

    def once(self) -> None:
        self.spent_ns = tuple(was + 1_000_000 * part for was, part in zip(self.spent_ns, (3, 2, 1), strict=True))


def test_parts_of_a_pass_add_up_to_it() -> None:
    spender = Spender()
    parts = profiled(spender, spender.once, lambda: None, seconds=0.0)
    assert (parts[LINEAR], parts[ATTENTION], parts[REST]) == pytest.approx((0.003, 0.002, 0.001))
    assert parts[PASS] == pytest.approx(sum(parts[name] for name in (LINEAR, ATTENTION, REST, AROUND)))
