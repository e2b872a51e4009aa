"""What all models share that keep their keys and values in this process."""

from __future__ import annotations

from typing import Protocol


class Pages(Protocol):
    """How many pages there are, and of how many tokens."""

    @property
    def page_size(self) -> int:
        """Tokens of a page."""

    @property
    def pages(self) -> int:
        """Pages that there is room for."""


class OnPages:
    """The part of a `StepModel` that its keys and values answer for."""

    def __init__(self, held: Pages) -> None:
        self._held = held

    @property
    def page_size(self) -> int:
        """Tokens of a page."""
        return self._held.page_size

    @property
    def pages(self) -> int:
        """Pages that there is room for."""
        return self._held.pages
