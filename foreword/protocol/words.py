"""Enumerations of the protocol; numbers equal those of `protos/foreword/v1`."""

from __future__ import annotations

from enum import IntEnum

PROTOCOL_MIN = 1
"""Oldest protocol version that this release speaks."""
PROTOCOL_MAX = 1
"""Newest protocol version that this release speaks."""

NO_TOKEN = 0xFFFFFFFF
"""On the wire, the absence of a token; in Python it is None."""


class Rule(IntEnum):
    """Acceptance rule of a round."""

    MATCH = 1
    TOKEN = 2
    BLOCK = 3


class Drafter(IntEnum):
    """Who wrote a candidate block."""

    MODEL = 1
    LOOKUP = 2
    MIXED = 3
    SYNTHETIC = 4


class ResultKind(IntEnum):
    """How a Result came about."""

    EVIDENCE = 1
    PLAIN = 2


class ReceiptCode(IntEnum):
    """What became of a block."""

    HELD = 1
    TAKEN = 2
    LATE = 3
    STALE = 4
    FULL = 5
    BAD = 6
    UNKNOWN = 7


class RefusalCode(IntEnum):
    """Why a session was not opened."""

    FULL = 1
    TOO_LONG = 2
    BAD = 3
    DRAINING = 4
    MISMATCH = 5
    STARTING = 6


class LossCode(IntEnum):
    """Why an open session ended at a peer."""

    EVICTED = 1
    RUNNER = 2
    PROTOCOL = 3
    DRAINING = 4
    LAW = 5
    DEAD_END = 6


class FinishReason(IntEnum):
    """Why an output ended."""

    STOP = 1
    LENGTH = 2
    ABORT = 3


class TokenSource(IntEnum):
    """Who wrote an output token."""

    TARGET = 1
    DRAFT = 2
    LOOKUP = 3
