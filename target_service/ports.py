"""Ports of the engine loop: how it hears, how it speaks, what time it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from target_service.engine.messages import FromEngine, ToEngine, ToService

Now = Callable[[], int]
"""Microseconds of the machine's monotonic clock, the one that arrival times are stamped with."""


class Channel(Protocol):
    """The engine's end of the pipe to its gRPC process."""

    def receive(self, timeout_s: float | None) -> list[Sequence[ToEngine]]:
        """Return all batches that are there, or the first that comes within `timeout_s` seconds; 0 only drains.

        Raises what ends the engine when the other end is gone.
        """

    def send(self, batch: Sequence[FromEngine]) -> None:
        """Hand over a batch."""


class ServiceChannel(Protocol):
    """The same pipe as it is: it takes encoded events."""

    def receive(self, timeout_s: float | None) -> list[Sequence[ToEngine]]:
        """Return batches that are there; see `Channel`."""

    def send(self, batch: Sequence[ToService]) -> None:
        """Hand over a batch."""
