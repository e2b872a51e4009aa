"""Options that benches share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

STDOUT = "-"

Json = Annotated[
    str | None,
    typer.Option("--json", metavar="[FILE]", help="Write the report as JSON to FILE; without FILE to stdout, alone."),
]
Plot = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw the figures into FILE (.png, .svg, .pdf); needs matplotlib."),
]
Repeats = Annotated[int, typer.Option(help="How often everything is measured, interleaved.", min=1, max=1000)]


def with_file_of_json(arguments: list[str]) -> list[str]:
    """Return a command line in which every --json has its file: `-` where none follows.

    Benches take options only, so what follows and is no option is the file.
    """
    completed = []
    for index, word in enumerate(arguments):
        follows = arguments[index + 1] if index + 1 < len(arguments) else None
        alone = word == "--json" and (follows is None or (follows.startswith("-") and follows != STDOUT))
        completed.append(f"--json={STDOUT}" if alone else word)
    return completed
