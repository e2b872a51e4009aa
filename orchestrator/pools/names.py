"""Names in settings that stand for several instances, and the port through which they are looked up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from foreword.clock import Clock, Timer
from foreword.errors import ForewordError

SCHEME = "dns:///"
"""What a name begins with in settings; gRPC writes them so too."""
LEAST_US = 500_000
"""Between two look-ups, however many links go down at the same time."""

Addresses = frozenset[str]
Answer = Addresses | ForewordError


@dataclass(frozen=True, slots=True)
class Name:
    """A DNS name: every address that it resolves to is an instance, which listens on `port`."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Name | None:
        """Return the name that a checked setting gives; None for the address of one instance."""
        if not text.startswith(SCHEME):
            return None
        host, _, port = text.removeprefix(SCHEME).rpartition(":")
        return cls(host, int(port))

    @property
    def authority(self) -> str:
        """What certificates of its instances are checked against, `host:port`."""
        return f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"{SCHEME}{self.authority}"


class LookUp(Protocol):
    """Looks names up."""

    def __call__(self, name: Name, answered: Callable[[Answer], None]) -> None:
        """Call `answered` once, later: with every address as `ip:port`, at least one, or with why there is none."""


class NameWatch:
    """Looks one name up every `every_us`, and soon after `hurry`; the next look-up waits for the one before."""

    def __init__(
        self, name: Name, look_up: LookUp, found: Callable[[Name, Answer], None], *, clock: Clock, every_us: int
    ) -> None:
        self._name = name
        self._look_up = look_up
        self._found = found
        self._clock = clock
        self._every_us = every_us
        self._timer: Timer | None = None
        self._began_us = 0
        self._asking = False
        self._hurried = False
        self._stopped = False

    def start(self) -> None:
        """Look the name up now."""
        self._timer, self._asking = None, True
        self._hurried = False
        self._began_us = self._clock.now_us()
        self._look_up(self._name, self._answered)

    def hurry(self) -> None:
        """Look the name up as soon as the last look-up is `LEAST_US` ago: an instance is gone, or another one is up."""
        if self._hurried or self._stopped:
            return
        self._hurried = True
        if not self._asking:
            self._schedule()

    def stop(self) -> None:
        """Look nothing up any more; an answer that is still to come is ignored."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _answered(self, answer: Answer) -> None:
        self._asking = False
        if not self._stopped:
            self._schedule()
            self._found(self._name, answer)

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        pause_us = min(LEAST_US, self._every_us) if self._hurried else self._every_us
        delay_us = max(0, self._began_us + pause_us - self._clock.now_us())
        self._timer = self._clock.call_later(delay_us, self.start)
