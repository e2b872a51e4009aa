"""What a faulty link does to one stream of bytes; no sockets, any clock.

A `Lane` is one direction of a link, shared by all connections over it. A `Pipe` carries one connection's bytes along a
lane: late, in order, thinned, flipped, held or lost, as the lane says when they come in.
"""

from __future__ import annotations

import math
import random
from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from foreword.clock import Clock, Timer
from foreword.errors import InvalidField

SEGMENT_BYTES = 4096
"""Unit of a limited bandwidth: what follows in the same chunk arrives later."""
WINDOW_BYTES = 16 * 1024 * 1024
"""Bytes under way on one connection above which its source is no longer read, as a full TCP window does."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Quality of one direction; every chunk is shaped by what holds when it comes in."""

    delay_ms: float = 0.0
    """One-way delay. Chunks are delayed side by side, not one after another."""
    jitter_ms: float = 0.0
    """Largest extra delay, drawn uniformly for every chunk; the order is kept, so a late chunk holds up the next."""
    bytes_per_s: float | None = None
    """Bandwidth, shared by all connections; None is unlimited."""
    corruption: float = 0.0
    """Probability that a byte is changed to another one."""

    def __post_init__(self) -> None:
        for name in ("delay_ms", "jitter_ms"):
            value = getattr(self, name)
            if not 0.0 <= value < math.inf:
                raise InvalidField(name, value, "a finite number of milliseconds from 0")
        if self.bytes_per_s is not None and not 0.0 < self.bytes_per_s < math.inf:
            raise InvalidField("bytes_per_s", self.bytes_per_s, "a finite number over 0, or None for no limit")
        if not 0.0 <= self.corruption <= 1.0:
            raise InvalidField("corruption", self.corruption, "a probability from 0 to 1")


@dataclass(slots=True)
class Lane:
    """One direction of a link as it is now."""

    shape: Shape = Shape()
    held: bool = False
    """Nothing arrives, nothing is lost: a partition that may heal."""
    swallows: bool = False
    """What comes in is lost without a sign: half-open."""
    free_us: float = 0.0
    """When the lane has sent what was given to it, under a limited bandwidth."""
    carried_bytes: int = 0


class Sink(Protocol):
    """Where a pipe ends: the part of `asyncio.Transport` that it uses."""

    def write(self, data: bytes, /) -> None:
        """Send bytes."""

    def write_eof(self) -> None:
        """End this direction, leave the other one open."""

    def close(self) -> None:
        """End both directions after what was written is sent."""

    def abort(self) -> None:
        """End both directions at once."""


class Source(Protocol):
    """Where a pipe's bytes come from: the part of `asyncio.Transport` that it uses."""

    def pause_reading(self) -> None:
        """Feed no more."""

    def resume_reading(self) -> None:
        """Feed again."""


class End(Enum):
    """How a source ended."""

    EOF = "eof"
    CLOSED = "closed"
    BROKEN = "broken"


class Pipe:
    """One connection's bytes in one direction; the source is paused while too many are under way."""

    def __init__(self, lane: Lane, source: Source, sink: Sink, *, clock: Clock, seed: str) -> None:
        self._lane = lane
        self._source = source
        self._sink = sink
        self._clock = clock
        self._full = False
        self._queue: deque[tuple[int, bytes | End]] = deque()
        self._under_way = 0
        self._blocked = False
        self._last_us = 0
        self._timer: Timer | None = None
        self._jitter = random.Random(f"jitter {seed}")
        self._flips = _Flips(seed)

    def feed(self, data: bytes) -> None:
        """Take bytes in."""
        if self._lane.swallows or not data:
            return
        shape, now_us = self._lane.shape, self._clock.now_us()
        data = self._flips.apply(data, shape.corruption)
        extra_us = 1000.0 * (shape.delay_ms + self._jitter.uniform(0.0, shape.jitter_ms))
        step = len(data) if shape.bytes_per_s is None else SEGMENT_BYTES
        for begin in range(0, len(data), step):
            segment = data[begin : begin + step]
            sent_us = float(now_us)
            if shape.bytes_per_s is not None:
                sent_us = max(self._lane.free_us, sent_us) + 1e6 * len(segment) / shape.bytes_per_s
                self._lane.free_us = sent_us
            self._enqueue(round(sent_us + extra_us), segment)
        self._under_way += len(data)
        self._check_window()
        self.flow()

    def feed_end(self, end: End) -> None:
        """Take the end of the source in; it arrives after the bytes, as late as they would."""
        if not self._lane.swallows:
            self._enqueue(self._clock.now_us() + round(1000.0 * self._lane.shape.delay_ms), end)
            self.flow()

    def block(self, *, blocked: bool) -> None:
        """Hold or go on because the sink is full or has room again."""
        self._blocked = blocked
        self.flow()

    def stop(self) -> None:
        """Forget what is under way."""
        self._queue.clear()
        self._under_way = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def flow(self) -> None:
        """Deliver what is due, and wait for the next."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._queue and not (self._blocked or self._lane.held):
            wait_us = self._queue[0][0] - self._clock.now_us()
            if wait_us > 0:
                self._timer = self._clock.call_later(wait_us, self.flow)
                break
            self._deliver(self._queue.popleft()[1])
        self._check_window()

    def _enqueue(self, due_us: int, what: bytes | End) -> None:
        self._last_us = max(self._last_us, due_us)
        self._queue.append((self._last_us, what))

    def _deliver(self, what: bytes | End) -> None:
        if isinstance(what, bytes):
            self._under_way -= len(what)
            self._lane.carried_bytes += len(what)
            self._sink.write(what)
        elif what is End.EOF:
            self._sink.write_eof()
        elif what is End.CLOSED:
            self._sink.close()
        else:
            self._sink.abort()

    def _check_window(self) -> None:
        if not self._full and self._under_way > WINDOW_BYTES:
            self._full = True
            self._source.pause_reading()
        elif self._full and self._under_way <= WINDOW_BYTES // 2:
            self._full = False
            self._source.resume_reading()


class _Flips:
    """Changes bytes at positions that depend on seed and rate alone, not on how the stream was cut into chunks."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(f"flips {seed}")
        self._rate = 0.0
        self._gap = 0

    def apply(self, data: bytes, rate: float) -> bytes:
        if rate != self._rate:
            self._rate = rate
            self._gap = self._next_gap()
        if rate == 0.0:
            return data
        changed = bytearray(data)
        position = self._gap
        while position < len(changed):
            changed[position] ^= self._random.randrange(1, 256)
            position += 1 + self._next_gap()
        self._gap = position - len(changed)
        return bytes(changed)

    def _next_gap(self) -> int:
        """Draw how many bytes stay whole before the next flip: geometric, by inversion."""
        if self._rate in (0.0, 1.0):
            return 0
        return int(math.log(1.0 - self._random.random()) / math.log1p(-self._rate))
