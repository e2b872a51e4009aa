"""Parts of a bench by name."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TypeVar

from foreword.errors import InvalidField

P = TypeVar("P", bound=Enum)


def read_parts(texts: Iterable[str], kind: type[P]) -> tuple[P, ...]:
    """Return the parts that are named, in the order of `kind`, all where none is; several stand between commas.

    Raises InvalidField for a name that is none.
    """
    known = {part.value: part for part in kind}
    names = [name.strip() for text in texts for name in text.split(",")]
    if unknown := [name for name in names if name not in known]:
        raise InvalidField("only", unknown[0], f"one of {', '.join(known)}, or several with commas")
    return tuple(part for part in kind if part.value in names or not names)
