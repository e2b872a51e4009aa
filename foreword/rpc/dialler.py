"""Keeps a link to a peer up: dials, serves the link, waits with capped exponential back-off and jitter, dials again."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog

from foreword.errors import ForewordError, Mismatch, Unavailable
from foreword.rpc.link import Link
from foreword.rpc.transport import Dial

Out = TypeVar("Out")
In = TypeVar("In")

_log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits between attempts, in seconds: doubled from `first_s` up to `most_s`, each scaled by 0.5 to 1 at random."""

    first_s: float = 0.1
    most_s: float = 5.0
    settled_s: float = 5.0
    """A link that lasted this long starts the row again."""

    def delay(self, failures: int, jitter: random.Random) -> float:
        """Return the wait after this many failures in a row, from 1."""
        row = self.first_s * 2.0 ** min(failures - 1, 32)
        return min(self.most_s, row) * jitter.uniform(0.5, 1.0)


class Dialler(Generic[Out, In]):
    """Dials one peer for as long as `run` runs; every attempt gets a link of its own from `new_link`."""

    def __init__(
        self,
        dial: Dial,
        new_link: Callable[[], Link[Out, In]],
        *,
        peer: str,
        backoff: Backoff | None = None,
        jitter: random.Random | None = None,
    ) -> None:
        self.peer = peer
        self._dial = dial
        self._new_link = new_link
        self._backoff = backoff or Backoff()
        self._jitter = jitter or random.Random()
        self._link: Link[Out, In] | None = None
        self._stop = asyncio.Event()
        self._told = ""
        """Why there is no link, as it was logged last; empty since one came up."""

    @property
    def link(self) -> Link[Out, In] | None:
        """The link if it is up."""
        return self._link if self._link is not None and self._link.is_up else None

    async def run(self) -> None:
        """Keep the link up until `stop`, or until cancelled."""
        failures = 0
        while not self._stop.is_set():
            began = time.monotonic()
            error = await self._attempt()
            if self._stop.is_set():
                return
            settled = time.monotonic() - began >= self._backoff.settled_s
            failures = 1 if settled else failures + 1
            wait_s = self._backoff.delay(failures, self._jitter)
            self._tell(error, wait_s)
            try:
                await asyncio.wait_for(self._stop.wait(), wait_s)
            except TimeoutError:
                continue

    def stop(self) -> None:
        """Close the link in good order and dial no more; `run` returns soon after."""
        self._stop.set()
        if self._link is not None:
            self._link.close()

    def _tell(self, error: ForewordError | None, wait_s: float) -> None:
        """Log why there is no link: once, and again when it is for another reason; retries would flood the log."""
        reason = str(error or "ended by the peer")
        known, self._told = self._told == reason, reason
        log = _log.debug if known else _log.warning if isinstance(error, Mismatch) else _log.info
        log("link down", peer=self.peer, reason=reason, retry_s=round(wait_s, 2))

    async def _attempt(self) -> ForewordError | None:
        link = self._link = self._new_link()
        try:
            async with self._dial() as transport:
                return await link.run(transport)
        except ForewordError as error:
            link.never_came_up(error)
            return error
        except Exception as error:
            _log.exception("link failed", peer=self.peer)
            failure = Unavailable(f"link: this end failed with {type(error).__name__}")
            link.never_came_up(failure)  # says nothing if it did
            return failure
        finally:
            self._link = None
            if link.peer is not None:
                self._told = ""
