"""Progress on stderr: a bar on a terminal, a line for every stage elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

import rich.progress
from rich.console import Console


class Progress:
    """Shows what a bench is doing, as a context manager."""

    def __init__(self, console: Console) -> None:
        columns = (
            rich.progress.TextColumn("{task.description}"),
            rich.progress.BarColumn(),
            rich.progress.MofNCompleteColumn(),
            rich.progress.TimeElapsedColumn(),
        )
        self._console = console
        self._bar = rich.progress.Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._bar.add_task("", total=None)
        self._began = time.monotonic()
        self._said = ""

    def begin(self, steps: int) -> None:
        """Say how many steps there will be."""
        self._bar.update(self._task, total=steps, completed=0)

    def now(self, what: str) -> None:
        """Say what is being done."""
        self._bar.update(self._task, description=what)
        if what != self._said and not self._console.is_terminal:
            self._console.print(f"{time.monotonic() - self._began:6.0f} s  {what}", highlight=False, soft_wrap=True)
        self._said = what

    def done(self) -> None:
        """Count a step as done."""
        self._bar.advance(self._task)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
