"""Changing frozen values on hot paths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class _Layout(NamedTuple):
    read: Callable[[Any], tuple[Any, ...]]
    """Values of all fields, in their order."""
    write: tuple[Callable[[Any, Any], None], ...]
    """Setters of the fields, which a frozen class has beneath its refusal to be changed."""
    place: Mapping[str, int]


def replace(value: T, /, **changes: Any) -> T:
    """Return a copy of a frozen slotted dataclass with some fields changed.

    Does what `dataclasses.replace` does, in a third of the time, for classes of at least two fields that have no
    `__post_init__`; others are refused. A session changes several times a round, so this shows.
    """
    kind: Any = type(value)
    read, write, place = _layout(kind)
    values = list(read(value))
    for name, changed in changes.items():
        values[place[name]] = changed
    copy: T = object.__new__(kind)
    for put, item in zip(write, values, strict=True):
        put(copy, item)
    return copy


@cache
def _layout(kind: Any) -> _Layout:
    names = [field.name for field in fields(kind)]
    if len(names) < 2 or hasattr(kind, "__post_init__") or "__slots__" not in vars(kind):
        raise TypeError(f"{kind.__name__}: wanted a slotted dataclass of two fields or more without __post_init__")
    write = tuple(vars(kind)[name].__set__ for name in names)
    return _Layout(attrgetter(*names), write, {name: i for i, name in enumerate(names)})
