"""No number in a setting can block for ever, be negative, or be none: refused at the start, by name.

Others shipped time-outs whose negative value waited for ever. Here a duration has bounds on both sides.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from draft_service.settings import DraftSettings
from foreword.errors import InvalidField
from foreword.settings.base import ServerSettings
from foreword.settings.fields import Leaf, leaves
from foreword.settings.load import load
from orchestrator.settings import OrchestratorSettings
from target_service.settings import TargetSettings

NEEDED: dict[tuple[str, ...], object] = {("targets",): "localhost:1"}


def numbers() -> Iterator[tuple[type[ServerSettings], Leaf]]:
    """Yield every setting that is a number."""
    for kind in (TargetSettings, DraftSettings, OrchestratorSettings):
        for leaf in leaves(kind, str(kind.model_config["env_prefix"])):
            if leaf.kind in (int, float):
                yield kind, leaf


every_number = pytest.mark.parametrize(
    ("kind", "leaf"), [pytest.param(k, leaf, id=f"{k.__name__}.{leaf.name}") for k, leaf in numbers()]
)


def refusal(kind: type[ServerSettings], leaf: Leaf, value: str) -> str:
    """Return the message by which a value is refused."""
    needed = NEEDED if kind is OrchestratorSettings else {}
    with pytest.raises(InvalidField) as caught:
        load(kind, flags={**needed, leaf.path: value})
    return caught.value.message


@every_number
@pytest.mark.parametrize("value", ["-1", "nan", "inf", "-inf", "many", "1,5"])
def test_what_is_no_sensible_number_is_refused_by_name(kind: type[ServerSettings], leaf: Leaf, value: str) -> None:
    message = refusal(kind, leaf, value)
    assert message.startswith(f"{leaf.name}: got ")
    assert leaf.flag in message


@pytest.mark.parametrize(
    ("kind", "leaf"),
    [pytest.param(k, leaf, id=f"{k.__name__}.{leaf.name}") for k, leaf in numbers() if leaf.unit in ("s", "ms")],
)
def test_durations_have_an_upper_bound(kind: type[ServerSettings], leaf: Leaf) -> None:
    assert "to" in leaf.wanted.split()
    refusal(kind, leaf, "1e12")
