"""Values in messages: whole where they are short, else their ends and how long they are."""

from __future__ import annotations

import pytest

from foreword.client.status import Printed
from foreword.errors import InvalidField, NotFound, shown


class Long:
    """Like an integer of more digits than Python prints."""

    def __repr__(self) -> str:
        raise ValueError("exceeds the limit")


@pytest.mark.parametrize("value", ["", "a" * 158, 12, None, {"a": 1}, [1] * 50])
def test_what_is_short_is_shown_whole(value: object) -> None:
    assert shown(value) == repr(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a" * 100_000, f"'{'a' * 79}…{'a' * 39}' (100,000 characters)"),
        ([1] * 1_000, f"[{'1, ' * 26}1…{', 1' * 13}] (3,000 characters)"),
        (Long(), "a value of type Long that is too long to print"),
    ],
)
def test_what_is_long_is_not(value: object, text: str) -> None:
    assert shown(value) == text
    assert shown(Printed(text)) == text, "what a peer has shortened stays as it is"
    assert InvalidField("a", value, "less").message == f"a: got {text}, wanted less"
    assert NotFound.of("a", value, "less").message == f"a: got {text}, wanted less"
