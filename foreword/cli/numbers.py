"""Lists of numbers as they are typed."""

from __future__ import annotations

from foreword.errors import InvalidField


def read_numbers(field: str, text: str, wanted: str) -> tuple[int, ...]:
    """Return the whole numbers in a comma-separated list; raises InvalidField, which says what is `wanted`."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InvalidField(field, text, wanted) from None
