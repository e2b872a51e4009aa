"""What a bench found, and the one shape of JSON that all of them write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from loadtest.bench.bar import Bar

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cell = str | float | None


@dataclass(frozen=True, slots=True)
class Table:
    """A table for people; the first column is text, numbers are shown with three significant digits or more."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True)
class Findings:
    """Figures, what they are held against, and how they are shown."""

    figures: Mapping[str, Any]
    bars: Sequence[Bar]
    tables: Sequence[Table]
    notes: Sequence[str] = ()
    """Lines under the tables: what a reader must know about the figures."""
    draw: Callable[[Figure], None] | None = None
    """Draws the plot; None where there is none."""


def report_json(machine: Mapping[str, Any], settings: Mapping[str, Any], findings: Findings) -> dict[str, Any]:
    """Return the whole report as what JSON can say."""
    return {
        "machine": dict(machine),
        "settings": dict(settings),
        "figures": dict(findings.figures),
        "bars": [bar.json() for bar in findings.bars],
    }
