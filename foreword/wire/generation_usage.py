"""What a choice took, to and from the wire."""

from __future__ import annotations

from foreword.protocol.generation import Usage
from foreword.v1 import generation_pb2
from foreword.wire.common import read_count
from foreword.wire.limits import Limits
from foreword.wire.packing import pack_u32, unpack_u32

_COUNTS = (
    "prompt_tokens",
    "output_tokens",
    "cached_tokens",
    "drafted_tokens",
    "accepted_tokens",
    "verifications",
    "plain_steps",
    "late_blocks",
    "drafts_used",
    "targets_used",
)


def fill_usage(m: generation_pb2.Usage, value: Usage) -> None:
    """Write `value` into `m`; raises InvalidField for a count that does not fit its field."""
    for field in _COUNTS:
        setattr(m, field, read_count(f"usage.{field}", getattr(value, field), most=2**32 - 1))
    m.accepted_per_position = pack_u32("usage.accepted_per_position", value.accepted_per_position)
    m.offered_per_position = pack_u32("usage.offered_per_position", value.offered_per_position)


def read_usage(m: generation_pb2.Usage, limits: Limits) -> Usage:
    """Return the value; raises InvalidField for lists beyond the largest block."""
    return Usage(
        **{field: getattr(m, field) for field in _COUNTS},
        accepted_per_position=unpack_u32("usage.accepted_per_position", m.accepted_per_position, most=limits.gamma),
        offered_per_position=unpack_u32("usage.offered_per_position", m.offered_per_position, most=limits.gamma),
    )
