"""Settings of the orchestrator: what is refused, and what becomes of the rest."""

from __future__ import annotations

import pytest

from foreword.errors import InvalidField
from orchestrator.service import front_settings, session_limits
from orchestrator.settings import OrchestratorSettings

REFUSED = [
    ({}, "targets"),
    ({"targets": ("here",)}, "targets"),
    ({"targets": ("a:1", "a:1")}, "targets"),
    ({"targets": ("a:1",), "drafts": ("b",)}, "drafts"),
    ({"targets": ("a:1",), "gamma": 17}, "gamma"),
    ({"targets": ("a:1",), "wait_min_ms": 2_000.0}, "wait_min_ms"),
    ({"targets": ("a:1",), "trust": ("all", "none")}, "trust"),
    ({"targets": ("a:1",), "trust": ()}, "trust"),
    ({"targets": ("a:1",), "drafts": ("b:1",), "trust": ("c:1",)}, "trust"),
]


@pytest.mark.parametrize(("values", "field"), REFUSED)
def test_refusals_name_the_field(values: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidField) as caught:
        OrchestratorSettings(**values)  # type: ignore[arg-type]
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("trust", "trusted"), [(("all",), True), (("none",), False), (("b:1",), True), (("c:1",), False)]
)
def test_trust_is_by_the_address_that_is_dialled(trust: tuple[str, ...], trusted: bool) -> None:
    settings = OrchestratorSettings(targets=("a:1",), drafts=("b:1", "c:1"), trust=trust)
    assert settings.trusted().of("b:1") is trusted


def test_units_are_turned_once() -> None:
    settings = OrchestratorSettings(targets=("a:1",), client_patience_s=1.5, round_limit_s=2.0, client_buffer=100)
    assert front_settings(settings).patience_us == 1_500_000
    assert (front_settings(settings).queue.full, front_settings(settings).queue.drained) == (100, 25)
    assert session_limits(settings).round_us == 2_000_000
