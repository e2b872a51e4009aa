"""Which addresses a client takes, and as how many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from foreword.client.endpoints import Endpoints
from foreword.errors import InvalidField


def addresses(given: str | Sequence[str], *, insecure: bool = False) -> tuple[str, ...]:
    return Endpoints(given, tls=None, token=None, insecure=insecure).addresses


def test_a_text_may_hold_several_as_a_list_does() -> None:
    both = ("127.0.0.1:50051", "127.0.0.1:50052")
    assert addresses("127.0.0.1:50051,127.0.0.1:50052") == addresses(" 127.0.0.1:50051, 127.0.0.1:50052,") == both
    assert addresses(both) == both
    assert addresses("ipv4:10.0.0.1:5,10.0.0.2:5", insecure=True) == ("ipv4:10.0.0.1:5,10.0.0.2:5",)


@pytest.mark.parametrize("given", ["", " , ", [], [""], 5])
def test_none_is_refused(given: Any) -> None:
    with pytest.raises(InvalidField, match=r"address: got .*, wanted host:port, or several"):
        addresses(given)


def test_each_of_a_text_is_looked_at() -> None:
    with pytest.raises(InvalidField, match=r"address: got '10\.0\.0\.1:5', wanted tls"):
        addresses("127.0.0.1:50051,10.0.0.1:5")
    with pytest.raises(InvalidField, match=r"address: got '127\.0\.0\.1', wanted host:port"):
        addresses("127.0.0.1:50051,127.0.0.1")
