from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from enum import Enum, IntEnum

import pytest

from foreword.engine.pickling import dumps
from foreword.errors import InvalidField


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


@dataclass(frozen=True, slots=True)
class Pair:
    left: int
    right: object = None


@dataclass(frozen=True, slots=True)
class Single:
    value: bytes


@dataclass(frozen=True, slots=True)
class Empty:
    pass


@dataclass(slots=True)
class Counted:
    start: int
    seen: list[int] = field(default_factory=list, init=False)


@pytest.mark.parametrize(
    "value",
    [
        Pair(1, (Single(b"x"), Colour.RED, Level.LOW, None, 2.5)),
        [Empty(), Pair(2), {"a": Single(b"")}],
        Colour.RED,
    ],
)
def test_what_was_pickled_comes_back(value: object) -> None:
    assert pickle.loads(dumps(value)) == value


def test_fields_that_no_constructor_takes_are_left_to_pickle() -> None:
    counted = Counted(1)
    counted.seen.append(2)
    assert pickle.loads(dumps(counted)) == counted


def test_one_object_twice_is_still_one() -> None:
    pair = Pair(1)
    first, second = pickle.loads(dumps((pair, pair)))
    assert first is second


def test_errors_come_back_as_they_were() -> None:
    error = pickle.loads(dumps(InvalidField("gamma", -1, "a whole number")))
    assert (type(error), error.field, error.seen) == (InvalidField, "gamma", -1)
