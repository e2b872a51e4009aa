"""Messages between a service and its engine: a length, a kind, and a pickled value."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from foreword.engine.pickling import dumps

_HEADER = struct.Struct("<QB")


class Kind(IntEnum):
    """What a message is."""

    START = 1
    """Parent: entry and settings."""
    READY = 2
    """Engine: it has started; whatever it wants to say about itself."""
    FAILED = 3
    """Engine: it could not start or go on; a ForewordError."""
    BATCH = 4
    """Both: work or results."""
    STOP = 5
    """Parent: end in good order."""


@dataclass(frozen=True, slots=True)
class Start:
    """What an engine runs: a function `module:name` called with its channel and these settings."""

    entry: str
    settings: Any


def pack(kind: Kind, value: object = None) -> bytes:
    """Return the bytes of a message."""
    body = dumps(value)
    return _HEADER.pack(len(body), kind) + body


def whole_bytes(data: bytes | bytearray) -> int:
    """Return how many bytes at the start of `data` are complete messages."""
    end = 0
    while len(data) - end >= _HEADER.size:
        length, _ = _HEADER.unpack_from(data, end)
        if len(data) - end < _HEADER.size + length:
            break
        end += _HEADER.size + length
    return end


class Unpacker:
    """Cuts a stream of bytes into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    @property
    def rest(self) -> bytes:
        """Bytes of a message that is not complete."""
        return bytes(self._buffer)

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[tuple[Kind, Any]]:
        """Take bytes; yield the messages that are complete now. The iterator must be used up before the next call."""
        buffer = self._buffer
        buffer += data
        start = 0
        try:
            while len(buffer) - start >= _HEADER.size:
                length, kind = _HEADER.unpack_from(buffer, start)
                end = start + _HEADER.size + length
                if len(buffer) < end:
                    break
                with memoryview(buffer) as view, view[start + _HEADER.size : end] as body:
                    value = pickle.loads(body)
                start = end
                yield Kind(kind), value
        finally:
            del buffer[:start]
