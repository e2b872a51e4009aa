"""Tables and bars on stdout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import rich.table
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement

from loadtest.bench.bar import Bar, Side
from loadtest.bench.findings import Cell, Findings, Table

_WIDEST = 10_000
"""Columns of a screen that any table fits."""


def show(console: Console, machine: Mapping[str, Any], findings: Findings) -> None:
    """Write everything that was found for people."""
    for table in findings.tables:
        console.print()
        console.print(table.title, style="bold")
        console.print(_grid(table, console))
    if findings.bars:
        console.print()
        for bar in findings.bars:
            console.print(bar_line(bar), style="green" if bar.holds else "red")
    console.print()
    for note in (*findings.notes, machine_line(machine)):
        console.print(note, style="dim")


def bar_line(bar: Bar) -> str:
    """Return a bar as one line."""
    wanted = "at least" if bar.side is Side.AT_LEAST else "at most"
    return f"{bar.name}: {number(bar.value)}, wanted {wanted} {number(bar.bound)}: {'holds' if bar.holds else 'missed'}"


def machine_line(machine: Mapping[str, Any]) -> str:
    """Return the machine as one line."""
    loads = " to ".join("unknown" if machine[k] is None else f"{machine[k]:.2f}" for k in ("load_before", "load_after"))
    versions = ", ".join(f"{name} {release}" for name, release in machine["versions"].items())
    return f"{machine['cpu']}, {machine['cores']} cores, load {loads}; {machine['platform']}; {versions}"


def number(value: float) -> str:
    """Return a number as people read it: about three significant digits, and all digits before the point."""
    if value == 0:
        return "0"
    size = abs(value)
    if size < 0.001:
        return f"{value:.1e}"
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{value:.{digits}f}"


def _grid(table: Table, console: Console) -> rich.table.Table:
    """Lay a table out: as wide as it has to be, and on a terminal that is narrower folded between words.

    Names of rows are never folded, and no word or number is cut.
    """
    rows = [[_text(cell) for cell in row] for row in table.rows]
    grid = rich.table.Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for index, name in enumerate(table.columns):
        pieces = [name, *(row[index] for row in rows)]
        if index:
            pieces = [word for piece in pieces for word in piece.split()]
        least = max(map(cell_len, pieces), default=0)
        grid.add_column(name, justify="right" if index else "left", no_wrap=not index, min_width=least)
    for row in rows:
        grid.add_row(*row)
    needed = Measurement.get(console, console.options.update_width(_WIDEST), grid)
    room = max(console.width, needed.minimum) if console.is_terminal else needed.maximum
    grid.width = min(room, needed.maximum)
    return grid


def _text(cell: Cell) -> str:
    if cell is None:
        return "–"
    return cell if isinstance(cell, str) else number(cell)
