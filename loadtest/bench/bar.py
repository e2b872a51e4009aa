"""Bars: what a figure is held against."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any


class Side(Enum):
    """On which side of its bound a figure should be."""

    AT_LEAST = "at_least"
    AT_MOST = "at_most"


@dataclass(frozen=True, slots=True)
class Bar:
    """A figure and its bound."""

    name: str
    value: float
    bound: float
    side: Side = Side.AT_LEAST

    @property
    def holds(self) -> bool:
        """Whether the figure is where it should be."""
        return self.value >= self.bound if self.side is Side.AT_LEAST else self.value <= self.bound

    def json(self) -> dict[str, Any]:
        """Return it as what JSON can say."""
        return {"name": self.name, "value": self.value, self.side.value: self.bound, "holds": self.holds}
