"""Forward passes of the runner alone against those of transformers, by rows and by sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from foreword.models.dtype import Dtype
from loadtest.bench.bar import Bar, Side
from loadtest.bench.findings import Cell, Table
from loadtest.bench.interleave import interleaved
from loadtest.bench.progress import Progress
from loadtest.bench.summary import median, summarize
from loadtest.engine.arms import DTYPES, comparison_json
from loadtest.engine.plan import Part, Plan
from loadtest.engine.rates import Better, Comparison, against_best
from loadtest.engine.report import Report, with_interval
from loadtest.engine.rig import Rig
from loadtest.engine.worker import Environment

BARS = {Dtype.BFLOAT16: 1.25, Dtype.FLOAT32: 1.6}
"""How many times its own one-row pass a pass that verifies a block may take."""
BLOCK = 8
"""Rows of the block of the bars."""
ROWS = (1, 2, 4, 8, 16, 32)
SESSIONS = (2, 4, 8, 16)
PROFILED = ((1, 1), (1, 8), (16, 1))
_SECONDS = 0.4
"""How long one pass is measured in one repeat."""
_BAR_SECONDS = 0.8
_PROFILE_SECONDS = 0.5
_EVIDENCE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Shape:
    """A pass; `peer` says where transformers ran it, None is the runner."""

    dtype: Dtype
    sessions: int
    rows: int
    peer: Environment | None = None

    @property
    def name(self) -> str:
        """What a table calls it."""
        rows = "1 row" if self.rows == 1 else f"{self.rows} rows"
        if self.peer is not None:
            return f"{self.peer.value}, {rows}"
        return f"1 session, {rows}" if self.sessions == 1 else f"{self.sessions} sessions, {rows}"

    @property
    def counts(self) -> bool:
        """Whether a bar rests on it."""
        return self.rows == (BLOCK if self.peer is None else 1) and self.sessions == 1


@dataclass(frozen=True, slots=True)
class Inside:
    """What passes of one dtype are made of."""

    profiles: Mapping[tuple[int, int], Mapping[str, float]]
    """Seconds by part, for sessions and rows."""
    evidence: Mapping[str, float]
    """Seconds of laws, evidence and verdict of a block, by law."""


async def measure(rig: Rig, plan: Plan, progress: Progress) -> Report:
    """Time all shapes, interleaved, then look into some passes."""
    shapes = [shape for dtype in DTYPES for shape in shapes_of(dtype)]
    times: dict[Shape, list[float]] = {shape: [] for shape in shapes}
    for _, shape in interleaved(shapes, plan.repeats):
        progress.now(f"passes: {shape.name}, {shape.dtype.value}")
        times[shape].append(await _timed(rig, plan, shape))
    inside = {}
    for dtype in DTYPES:
        progress.now(f"passes: where time goes, {dtype.value}")
        inside[dtype] = await _looked_into(rig, plan, dtype)
    return report_of(times, inside)


def shapes_of(dtype: Dtype) -> list[Shape]:
    """Return the passes that are timed in a dtype."""
    return [
        *(Shape(dtype, 1, rows) for rows in ROWS),
        *(Shape(dtype, sessions, 1) for sessions in SESSIONS),
        *(Shape(dtype, 1, 1, environment) for environment in Environment),
        Shape(dtype, 1, BLOCK, Environment.OURS),
    ]


def report_of(times: Mapping[Shape, Sequence[float]], inside: Mapping[Dtype, Inside]) -> Report:
    """Return the figures; times are seconds, of which figures make milliseconds."""
    against = {dtype: _against(times, dtype) for dtype in DTYPES}
    return Report(
        Part.PASSES,
        figures={dtype.value: _json(times, dtype, inside[dtype], against[dtype]) for dtype in DTYPES},
        bars=[
            Bar(
                f"pass of {BLOCK} rows over transformers' of 1, {name.value}",
                against[name].ratio.median,
                bound,
                Side.AT_MOST,
            )
            for name, bound in BARS.items()
        ],
        tables=[_curve(times, against), *(_profile(dtype, inside[dtype]) for dtype in DTYPES), _evidence(inside)],
        draw=partial(_draw, times),
        notes=("a pass: median of its repeats; logits of all rows are wanted; profiles are means",),
    )


async def _timed(rig: Rig, plan: Plan, shape: Shape) -> float:
    question = {
        "dtype": shape.dtype.value,
        "rows": shape.rows,
        "context": plan.context,
        "seconds": _BAR_SECONDS if shape.counts else _SECONDS,
    }
    if shape.peer is not None:
        found = await (await rig.peer(shape.peer)).ask("passes", **question)
    else:
        found = await (await rig.runner()).ask("passes", sessions=shape.sessions, **question)
    return median(found["seconds"])


async def _looked_into(rig: Rig, plan: Plan, dtype: Dtype) -> Inside:
    runner = await rig.runner()
    common = {"dtype": dtype.value, "context": plan.context}
    profiles = {}
    for sessions, rows in PROFILED:
        found = await runner.ask("profile", sessions=sessions, rows=rows, seconds=_PROFILE_SECONDS, **common)
        profiles[sessions, rows] = found["parts"]
    evidence = await runner.ask("evidence", rows=BLOCK, seconds=_EVIDENCE_SECONDS, **common)
    return Inside(profiles, {law: median(taken) for law, taken in evidence["seconds"].items()})


def _against(times: Mapping[Shape, Sequence[float]], dtype: Dtype) -> Comparison:
    peers = {where.value: times[Shape(dtype, 1, 1, where)] for where in Environment}
    return against_best(times[Shape(dtype, 1, BLOCK)], peers, Better.SMALLER)


def _json(times: Mapping[Shape, Sequence[float]], dtype: Dtype, inside: Inside, against: Comparison) -> dict[str, Any]:
    shapes = [
        {
            "by": "foreword" if shape.peer is None else shape.peer.value,
            "sessions": shape.sessions,
            "rows": shape.rows,
            "ms": asdict(summarize([1e3 * taken for taken in seconds])),
        }
        for shape, seconds in times.items()
        if shape.dtype is dtype
    ]
    profiles = [
        {"sessions": sessions, "rows": rows, "ms": {part: 1e3 * taken for part, taken in parts.items()}}
        for (sessions, rows), parts in inside.profiles.items()
    ]
    return {
        "passes": shapes,
        "ratio": comparison_json(against),
        "profiles": profiles,
        "evidence_ms": {law: 1e3 * taken for law, taken in inside.evidence.items()},
    }


def _curve(times: Mapping[Shape, Sequence[float]], against: Mapping[Dtype, Comparison]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for shape in shapes_of(DTYPES[0]):
        alike = [Shape(dtype, shape.sessions, shape.rows, shape.peer) for dtype in DTYPES]
        rows.append((shape.name, *(with_interval(summarize([1e3 * taken for taken in times[one]])) for one in alike)))
    rows.append((f"{BLOCK} rows over 1 row of transformers", *(with_interval(against[d].ratio) for d in DTYPES)))
    return Table("A forward pass, ms", ("", *(dtype.value for dtype in DTYPES)), tuple(rows))


def _profile(dtype: Dtype, inside: Inside) -> Table:
    parts = list(next(iter(inside.profiles.values())))
    heads = [Shape(dtype, sessions, rows).name for sessions, rows in inside.profiles]
    rows: list[tuple[Cell, ...]] = [
        (part, *(1e3 * found[part] for found in inside.profiles.values())) for part in parts
    ]
    return Table(f"Where a pass spends its time, {dtype.value}, ms", ("", *heads), tuple(rows))


def _evidence(inside: Mapping[Dtype, Inside]) -> Table:
    laws = list(next(iter(inside.values())).evidence)
    rows: list[tuple[Cell, ...]] = [(law, *(1e3 * inside[dtype].evidence[law] for dtype in DTYPES)) for law in laws]
    title = f"Laws, evidence and verdict of a block of {BLOCK - 1} candidates, all kept, ms"
    return Table(title, ("", *(dtype.value for dtype in DTYPES)), tuple(rows))


def _draw(times: Mapping[Shape, Sequence[float]], axes: Any) -> None:
    for dtype in DTYPES:
        by_rows = [1e3 * median(times[Shape(dtype, 1, rows)]) for rows in ROWS]
        by_sessions = [1e3 * median(times[Shape(dtype, sessions, 1)]) for sessions in SESSIONS]
        (line,) = axes.plot(ROWS, by_rows, marker="o", label=f"{dtype.value}, rows of 1 session")
        axes.plot(SESSIONS, by_sessions, marker="s", ls="--", color=line.get_color(), label=f"{dtype.value}, sessions")
        theirs = min(median(times[Shape(dtype, 1, 1, where)]) for where in Environment)
        axes.axhline(1e3 * theirs, ls=":", color=line.get_color(), label=f"{dtype.value}, 1 row of transformers")
    axes.set_xlabel("rows")
    axes.set_ylabel("ms of a pass")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize="small")
