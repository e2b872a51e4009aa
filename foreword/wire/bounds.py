"""Bounds on bytes before they are parsed: two bytes of an empty message would become a hundred of memory."""

from __future__ import annotations

from collections.abc import Iterator

from foreword.errors import InvalidField

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LEAST_ENTRY_BYTES = 2


def check_entries(data: bytes, most: int, *, field: str = "frame", what: str = "messages") -> None:
    """Raise InvalidField if `data` has more than `most` top-level fields; what is malformed is left to the parser."""
    if len(data) > most * _LEAST_ENTRY_BYTES and _count_fields(data, most) > most:
        raise InvalidField(field, f"over {most}", f"at most {most} {what}")


def check_nested(data: bytes, number: int, most: int, *, field: str, what: str) -> None:
    """Raise InvalidField if the messages in the top-level fields of this number have more than `most` fields."""
    if len(data) <= most * _LEAST_ENTRY_BYTES:
        return
    count = 0
    for tag, begin, end in _fields(data):
        if tag == number << 3 | _BYTES and count <= most:
            count += _count_fields(data[begin:end], most - count)
    if count > most:
        raise InvalidField(field, f"over {most}", f"at most {most} {what}")


def _count_fields(data: bytes, most: int) -> int:
    """Count protobuf fields at the top level, as far as `most` + 1 or the first that is malformed."""
    count = 0
    for _ in _fields(data):
        count += 1
        if count > most:
            break
    return count


def _fields(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield the tag of each top-level field, and where its value begins and ends, up to the first malformed one."""
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        kind = tag & 7
        value, place = _varint(data, place) if kind in (_VARINT, _BYTES) else (0, place)
        begin = place
        place += {_BYTES: value, _FIXED64: 8, _FIXED32: 4}.get(kind, 0)
        yield tag, begin, place


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
