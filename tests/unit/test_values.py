from __future__ import annotations

import dataclasses

import pytest

from foreword.values import replace


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0
    tag: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Checked:
    x: int
    y: int

    def __post_init__(self) -> None:
        assert self.x < self.y


@dataclasses.dataclass(frozen=True)
class Open:
    x: int
    y: int


def test_it_does_what_dataclasses_replace_does() -> None:
    point = Point(1, 2, (3,))
    assert replace(point, y=5, tag=()) == dataclasses.replace(point, y=5, tag=())
    assert replace(point) == point
    assert replace(point) is not point
    assert point == Point(1, 2, (3,))
    with pytest.raises(dataclasses.FrozenInstanceError):
        replace(point, x=0).x = 1  # type: ignore[misc]


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError, match="Point: got z, wanted some of x, y, tag"):
        replace(Point(1), z=1)


def test_a_class_with_one_field_and_fields_named_like_what_the_copier_uses() -> None:
    @dataclasses.dataclass(frozen=True, slots=True)
    class One:
        value: int

    @dataclasses.dataclass(frozen=True, slots=True)
    class Odd:
        changes: int
        kind: int
        new: int
        copy: int

    assert replace(One(1), value=2) == One(2)
    assert replace(Odd(1, 2, 3, 4), kind=5, copy=6) == Odd(1, 5, 3, 6)


@pytest.mark.parametrize("value", [Checked(1, 2), Open(1, 2)])
def test_classes_that_it_would_get_wrong_are_refused(value: object) -> None:
    with pytest.raises(TypeError, match="slotted dataclass"):
        replace(value, x=3)
