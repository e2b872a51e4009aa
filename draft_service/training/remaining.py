"""Progress of hours of work on stderr, with the time that is left: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from datetime import timedelta
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

FIRST_LINES_S, LINE_EVERY_S = 5.0, 60.0
"""Time between lines at the beginning, and the longest: it doubles, so that hours of work do not fill a log."""


class Remaining:
    """Shows how far something is, as a context manager; `unit` is what is counted."""

    def __init__(self, console: Console, unit: str) -> None:
        self._console = console
        self._unit = unit
        self._bar = Progress(
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(f"{unit}s"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=None)
        self._began: tuple[float, int] | None = None
        self._said = float("-inf")
        self._pause = FIRST_LINES_S / 2
        self._unsaid = ""
        """The last state, where no line has told it yet."""

    def at(self, done: int, total: int, remark: str = "") -> None:
        """Say that `done` of `total` are done."""
        self._bar.update(self._task, completed=done, total=max(done, total), description=remark)
        now = time.monotonic()
        if self._began is None:
            self._began = now, done
        self._unsaid = self._line(done, total, remark, now)
        if now - self._said >= self._pause:
            self._said, self._pause = now, min(2 * self._pause, LINE_EVERY_S)
            self._say()

    def _say(self) -> None:
        if self._unsaid and not self._console.is_terminal:
            self._console.print(self._unsaid, highlight=False, soft_wrap=True)
        self._unsaid = ""

    def _line(self, done: int, total: int, remark: str, now: float) -> str:
        assert self._began is not None
        if done > total:
            return f"{done:,} {self._unit}s, {total:,} were wanted  {remark}".rstrip()
        if done == total:
            return f"{done:,} of {total:,} {self._unit}s  {remark}".rstrip()
        began, first = self._began
        speed = (done - first) / (now - began) if now > began else 0.0
        left = str(timedelta(seconds=round(max(0, total - done) / speed))) if speed else "?"
        return f"{done:,} of {total:,} {self._unit}s, {left} left  {remark}".rstrip()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._say()
        self._bar.stop()
