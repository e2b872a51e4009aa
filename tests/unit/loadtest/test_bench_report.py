"""The frame of all benches: one shape of JSON, bars that judge and never fail, arms in turns, medians with spread."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.errors import InvalidField
from loadtest.bench.bar import Bar, Side
from loadtest.bench.findings import Findings, Table
from loadtest.bench.frame import Destination, carry_out
from loadtest.bench.interleave import interleaved
from loadtest.bench.machine import cpu_model
from loadtest.bench.options import with_file_of_json
from loadtest.bench.progress import Progress
from loadtest.bench.show import bar_line, number
from loadtest.bench.summary import median_interval, quantile, summarize

FINDINGS = Findings(
    figures={"tokens_per_s": 12.5},
    bars=(Bar("share", 0.5, 0.95), Bar("flips", 0.0, 1.0, Side.AT_MOST)),
    tables=(Table("Rounds", ("sessions", "ms"), (("1", 29.25), ("32", None))),),
    notes=("on loopback",),
)


async def work(progress: Progress) -> Findings:
    progress.begin(1)
    progress.now("measuring")
    progress.done()
    return FINDINGS


def test_json_alone_on_stdout_with_one_shape(capsys: pytest.CaptureFixture[str]) -> None:
    carry_out(work, {"gamma": 4}, Destination(json="-"))
    report = json.loads(capsys.readouterr().out)
    assert list(report) == ["machine", "settings", "figures", "bars"]
    assert report["settings"] == {"gamma": 4}
    assert report["figures"] == {"tokens_per_s": 12.5}
    assert report["bars"] == [
        {"name": "share", "value": 0.5, "at_least": 0.95, "holds": False},
        {"name": "flips", "value": 0.0, "at_most": 1.0, "holds": True},
    ]
    assert {"cpu", "cores", "memory_gib", "platform", "versions", "load_before", "load_after"} <= set(report["machine"])


def test_a_file_of_json_beside_tables_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    carry_out(work, {}, Destination(json=str(tmp_path / "report.json")))
    assert json.loads((tmp_path / "report.json").read_text())["figures"] == {"tokens_per_s": 12.5}
    shown = capsys.readouterr().out
    for words in ("Rounds", "29.2", "–", "share: 0.500, wanted at least 0.950: missed", "flips: 0", "on loopback"):
        assert words in shown


@pytest.mark.parametrize(
    ("to", "field"),
    [
        (Destination(json="/nowhere/report.json"), "json"),
        (Destination(json="/"), "json"),
        (Destination(plot=Path("/nowhere/plot.png")), "plot"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_runs(to: Destination, field: str) -> None:
    async def never(_: Progress) -> Findings:
        raise AssertionError

    with pytest.raises(InvalidField) as caught:
        carry_out(never, {}, to)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (["--json"], ["--json=-"]),
        (["--json", "--repeats", "3"], ["--json=-", "--repeats", "3"]),
        (["--json", "file.json"], ["--json", "file.json"]),
        (["--json", "-"], ["--json", "-"]),
        (["--json=file.json"], ["--json=file.json"]),
        ([], []),
    ],
)
def test_json_may_stand_without_a_file(given: list[str], read: list[str]) -> None:
    assert with_file_of_json(given) == read


def test_arms_take_turns_and_none_is_always_first() -> None:
    order = list(interleaved(("plain", "drafted"), 4))
    assert [repeat for repeat, _ in order] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [arm for _, arm in order[::2]] == ["plain", "drafted", "plain", "drafted"]
    assert all({arm for _, arm in order[i : i + 2]} == {"plain", "drafted"} for i in range(0, 8, 2))


@pytest.mark.parametrize(("share", "value"), [(0.0, 1.0), (0.25, 1.75), (0.5, 2.5), (1.0, 4.0)])
def test_quantiles_are_linear_between_neighbours(share: float, value: float) -> None:
    assert quantile([4.0, 1.0, 3.0, 2.0], share) == value


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40))
def test_a_summary_lies_within_what_was_measured(values: Sequence[float]) -> None:
    summary = summarize(values)
    assert min(values) <= summary.low <= summary.median <= summary.high <= max(values)
    assert (summary.count, summary.spread) == (len(values), (summary.high - summary.low) / 2)


@pytest.mark.parametrize("count", [1, 5, 6, 12])
def test_the_coverage_of_an_interval_is_what_counting_says(count: int) -> None:
    """Of all ways in which values fall on either side of the median, so many put it inside the interval."""
    ordered = [float(i) for i in range(count)]
    low, high, coverage = median_interval(ordered)
    k = ordered.index(low) + 1
    assert ordered.index(high) == count - k
    ways = list(itertools.product((False, True), repeat=count))
    inside = sum(k <= sum(below) <= count - k for below in ways)
    assert coverage == pytest.approx(inside / len(ways) if count > 1 else 0.0)
    assert coverage >= 0.95 or k == 1
    narrower = sum(k + 1 <= sum(below) <= count - k - 1 for below in ways) / len(ways)
    assert narrower < 0.95


def test_an_interval_covers_as_often_as_it_says() -> None:
    rng = random.Random(3)
    trials = [median_interval([rng.expovariate(1.0) for _ in range(9)]) for _ in range(2000)]
    covered = sum(low <= math.log(2) <= high for low, high, _ in trials) / len(trials)
    assert covered == pytest.approx(trials[0][2], abs=0.02)


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.1234, "0.123"), (1.234, "1.23"), (29.25, "29.2"), (1234.5, "1234")]
)
def test_numbers_as_people_read_them(value: float, text: str) -> None:
    assert number(value) == text


def test_a_bar_is_a_line() -> None:
    assert bar_line(Bar("x", 2.0, 3.0, Side.AT_MOST)) == "x: 2.00, wanted at most 3.00: holds"


def test_the_processor_is_named_where_the_kernel_names_it() -> None:
    assert cpu_model("processor : 0\nmodel name\t: Example CPU 9000\n") == "Example CPU 9000"
    assert cpu_model("processor : 0\n") is None
