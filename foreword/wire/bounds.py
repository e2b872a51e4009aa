"""Bounds on a frame before it is parsed: two bytes of an empty entry would become a hundred of memory."""

from __future__ import annotations

from foreword.errors import InvalidField

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LEAST_ENTRY_BYTES = 2


def check_entries(data: bytes, most: int) -> None:
    """Raise InvalidField if `data` has more than `most` top-level fields; what is malformed is left to the parser."""
    if len(data) > most * _LEAST_ENTRY_BYTES and _count_fields(data, most) > most:
        raise InvalidField("frame", f"over {most}", f"at most {most} messages")


def _count_fields(data: bytes, most: int) -> int:
    """Count protobuf fields at the top level, as far as `most` + 1 or the first that is malformed."""
    count = place = 0
    while place < len(data) and count <= most:
        tag, place = _varint(data, place)
        kind = tag & 7
        value, place = _varint(data, place) if kind in (_VARINT, _BYTES) else (0, place)
        place += {_BYTES: value, _FIXED64: 8, _FIXED32: 4}.get(kind, 0)
        count += 1
    return count


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """Return the varint at `place` and the place after it; at the end of the data what there is of it."""
    value = shift = 0
    while place < len(data):
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80 or shift > 56:
            break
        shift += 7
    return value, place
