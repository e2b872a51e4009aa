"""Progress of fetching and converting on stderr: bars on a terminal, a line for each step elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn


class ModelProgress:
    """A `foreword.models.progress.Progress` to be used as a context manager."""

    def __init__(self) -> None:
        # The stream of now: while a library is kept quiet, sys.stderr is another.
        self._console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
        self._bars = Progress(
            SpinnerColumn(finished_text="✓"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[amount]}"),
            TimeElapsedColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
            redirect_stderr=False,
            redirect_stdout=False,
        )
        self._tasks: dict[str, TaskID] = {}
        self._unsaid = ""
        """How the present piece of work will have ended, where no terminal shows a bar."""

    def __enter__(self) -> ModelProgress:
        """Start drawing."""
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop drawing; the last state stays on the screen."""
        if error is None:
            self._finish()
        self._bars.stop()

    def __call__(self, what: str, done: int, total: int | None) -> None:
        """Show the state of one piece of work; the one before it has ended."""
        if what not in self._tasks:
            self._finish()
            self._tasks[what] = self._bars.add_task(what, total=None, amount="")
            if not self._console.is_terminal:
                self._console.print(what if not total else f"{what}: {done:,} of {total:,} bytes are there")
                self._unsaid = f"{what}: all {total:,} bytes are there" if total and done < total else ""
        amount = f"{done / 1e6:.1f}/{total / 1e6:.1f} MB" if total else ""
        self._bars.update(self._tasks[what], completed=done, total=total or None, amount=amount)

    def _finish(self) -> None:
        if self._unsaid:
            self._console.print(self._unsaid)
            self._unsaid = ""
        for task in self._bars.tasks:
            self._bars.update(task.id, total=task.total or 1, completed=task.total or 1)
