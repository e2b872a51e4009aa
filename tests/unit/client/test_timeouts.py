"""A limit of time that could not be kept is refused by name, wherever one is taken; no server is needed for that."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from foreword import AsyncClient, Client, InvalidField
from foreword.client.fields import LONGEST_TIMEOUT_S
from foreword.stack.config import StackConfig

NOWHERE = "127.0.0.1:1"
RANGE = "a number of seconds over 0 and up to 1000000000"
WRONG = [
    (float("inf"), f"got inf, wanted {RANGE}"),
    (float("nan"), f"got nan, wanted {RANGE}"),
    (0, f"got 0, wanted {RANGE}"),
    (-1.5, f"got -1.5, wanted {RANGE}"),
    (1e10, f"got 10000000000.0, wanted {RANGE}"),
    ("5", "got '5', wanted a number"),
    (True, "got True, wanted a number"),
]


def ask(name: str, **arguments: object) -> Callable[[object], object]:
    """Return what calls a method of a blocking client with a limit of time."""

    def call(timeout_s: object) -> object:
        with Client(NOWHERE) as client:
            return getattr(client, name)(timeout_s=timeout_s, **arguments)

    return call


@pytest.mark.parametrize(
    "take",
    [
        pytest.param(lambda value: AsyncClient(NOWHERE, timeout_s=value), id="AsyncClient"),
        pytest.param(lambda value: Client(NOWHERE, timeout_s=value), id="Client"),
        pytest.param(lambda value: AsyncClient(NOWHERE).stream("x", timeout_s=value), id="AsyncClient.stream"),
        pytest.param(ask("stream", prompt="x"), id="stream"),
        pytest.param(ask("generate", prompt="x"), id="generate"),
        pytest.param(ask("info"), id="info"),
        pytest.param(ask("abort", request_id="r"), id="abort"),
    ],
)
@pytest.mark.parametrize(("value", "says"), WRONG)
def test_clients_refuse_it(take: Callable[[object], object], value: object, says: str) -> None:
    with pytest.raises(InvalidField) as caught:
        take(value)
    assert str(caught.value) == f"timeout_s: {says}"


@pytest.mark.parametrize("value", [None, 1, 1e-3, LONGEST_TIMEOUT_S])
def test_what_can_be_kept_is_taken(value: float | None) -> None:
    AsyncClient(NOWHERE, timeout_s=value).stream("x", timeout_s=value)


@pytest.mark.parametrize("name", ["start_timeout_s", "grace_s", "backoff_s", "longest_backoff_s"])
@pytest.mark.parametrize("value", [float("inf"), float("nan"), -1.0])
def test_stacks_refuse_it(name: str, value: float) -> None:
    with pytest.raises(InvalidField, match=re.escape(f"{name}: got {value}, wanted a finite number of seconds from 0")):
        StackConfig(**{name: value})  # type: ignore[arg-type]
