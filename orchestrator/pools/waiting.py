"""Sessions that wait for a peer to come up."""

from __future__ import annotations

from collections.abc import Callable


class Waiting:
    """Callbacks by who waits; each is called once, the newest of each."""

    def __init__(self) -> None:
        self._callbacks: dict[object, Callable[[], None]] = {}

    def add(self, who: object, callback: Callable[[], None]) -> None:
        """Call back when a peer comes up next."""
        self._callbacks[who] = callback

    def remove(self, who: object) -> None:
        """Take the callback back; without effect if there is none."""
        self._callbacks.pop(who, None)

    def wake(self) -> None:
        """Call all who wait now; those who start to wait meanwhile are for the next time."""
        callbacks, self._callbacks = self._callbacks, {}
        for callback in callbacks.values():
            callback()
