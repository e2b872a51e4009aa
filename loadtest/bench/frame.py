"""Carries out a bench: machine, progress, report; the figures never change the exit status."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foreword.cli.output import stderr, stdout
from foreword.errors import InvalidField
from loadtest.bench.findings import Findings, report_json
from loadtest.bench.machine import load_average, machine_json, this_machine
from loadtest.bench.options import STDOUT
from loadtest.bench.plot import check_plot, draw
from loadtest.bench.progress import Progress
from loadtest.bench.show import show

Work = Callable[[Progress], Coroutine[Any, Any, Findings]]


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a report goes."""

    json: str | None = None
    """A file, `-` for stdout, None for no JSON."""
    plot: Path | None = None


def carry_out(work: Work, settings: Mapping[str, Any], to: Destination) -> None:
    """Run the bench and write its report: JSON alone on stdout if it was asked for there, else tables.

    Raises InvalidField for a destination that cannot be written, before anything runs, and what `work` raises.
    """
    _check(to)
    machine, load_before = this_machine(), load_average()
    with Progress(stderr()) as progress:
        findings = asyncio.run(work(progress))
    facts = machine_json(machine, load_before, load_average())
    if to.plot is not None:
        draw(findings, to.plot)
    text = json.dumps(report_json(facts, settings, findings), ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    if to.json == STDOUT:
        stdout().file.write(text)
        return
    if to.json is not None:
        Path(to.json).write_text(text, encoding="utf-8")
    show(stdout(), facts, findings)


def _check(to: Destination) -> None:
    files = {"json": None if to.json in (None, STDOUT) else Path(str(to.json)), "plot": to.plot}
    for name, file in files.items():
        if file is not None and (file.is_dir() or not file.absolute().parent.is_dir()):
            raise InvalidField(name, str(file), "a file in a folder that exists")
    if to.plot is not None:
        check_plot(to.plot)
