"""What one part of the bench found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from loadtest.bench.bar import Bar
from loadtest.bench.findings import Findings, Table
from loadtest.bench.show import number
from loadtest.bench.summary import Summary, summarize
from loadtest.engine.plan import Part

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Report:
    """Figures of a part, how they are shown, and its share of the plot."""

    part: Part
    figures: Mapping[str, Any]
    tables: Sequence[Table]
    draw: Callable[[Axes], None]
    bars: Sequence[Bar] = ()
    notes: Sequence[str] = ()


def findings_of(reports: Sequence[Report], repeats: int) -> Findings:
    """Return all parts as one; `repeats` is how often each arm was measured."""
    coverage = summarize([0.0] * repeats).coverage
    said = (
        f"medians of {repeats} repeats, interleaved; in brackets an interval that holds the median with {coverage:.0%}"
    )

    def draw(figure: Figure) -> None:
        figure.set_figwidth(4.5 * len(reports))
        for axes, report in zip(figure.subplots(1, len(reports), squeeze=False)[0], reports, strict=True):
            report.draw(axes)

    return Findings(
        figures={report.part.value: report.figures for report in reports},
        bars=[bar for report in reports for bar in report.bars],
        tables=[table for report in reports for table in report.tables],
        notes=[*(note for report in reports for note in report.notes), said],
        draw=draw,
    )


def with_interval(summary: Summary) -> str:
    """Return a median and its interval as a cell of a table."""
    return f"{number(summary.median)} [{number(summary.low)}, {number(summary.high)}]"
