"""Plots, drawn by matplotlib where it is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from foreword.errors import InvalidField
from loadtest.bench.findings import Findings

FORMATS: Final = (".png", ".svg", ".pdf")


def check_plot(file: Path) -> None:
    """Raise InvalidField or ModuleNotFoundError now, and not after minutes, if this file could not be drawn."""
    import matplotlib  # noqa: F401

    if file.suffix not in FORMATS:
        raise InvalidField("plot", str(file), f"a file that ends in {', '.join(FORMATS)}")


def draw(findings: Findings, file: Path) -> None:
    """Draw the plot of these findings into a file."""
    from matplotlib.figure import Figure

    if findings.draw is None:
        raise InvalidField("plot", str(file), "no plot: this bench has none")
    figure = Figure(figsize=(9, 4), layout="constrained")
    findings.draw(figure)
    figure.savefig(file)
