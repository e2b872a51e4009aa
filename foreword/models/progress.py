"""How long work tells how far it is; who shows it, and where, is the caller's affair."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receives the state of one piece of work after another."""

    def __call__(self, what: str, done: int, total: int | None) -> None:
        """`done` of `total` bytes of `what`; a total of None is unknown, and a total of 0 has no size."""


def silent(what: str, done: int, total: int | None) -> None:
    """Show nothing."""
