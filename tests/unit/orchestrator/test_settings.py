"""Settings of the orchestrator: what is refused, and what becomes of the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from foreword.errors import InvalidField
from foreword.settings.checks import messages_of
from foreword.settings.load import load
from orchestrator.http.settings import HttpSettings
from orchestrator.service import front_settings, session_limits
from orchestrator.settings import OrchestratorSettings

REFUSED = [
    ({}, "targets"),
    ({"targets": ("here",)}, "targets"),
    ({"targets": ("10.0.0.1:5",)}, "targets"),
    ({"targets": ("dns:///targets:5",)}, "targets"),
    ({"targets": ("dns:///localhost",)}, "targets"),
    ({"targets": ("dns:///:5",)}, "targets"),
    ({"targets": ("dns://localhost/localhost:5",)}, "targets"),
    ({"targets": ("localhost:1", "localhost:1")}, "targets"),
    ({"targets": ("localhost:1",), "drafts": ("b",)}, "drafts"),
    ({"targets": ("localhost:1",), "gamma": 17}, "gamma"),
    ({"targets": ("localhost:1",), "wait_min_ms": 2_000.0}, "wait_min_ms"),
    ({"targets": ("localhost:1",), "trust": ("all", "none")}, "trust"),
    ({"targets": ("localhost:1",), "trust": ()}, "trust"),
    ({"targets": ("localhost:1",), "drafts": ("localhost:2",), "trust": ("localhost:3",)}, "trust"),
]


@pytest.mark.parametrize(("values", "field"), REFUSED)
def test_refusals_name_the_field(values: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidField) as caught:
        OrchestratorSettings(**values)  # type: ignore[arg-type]
    assert caught.value.field == field


def test_what_does_not_fit_together_is_told_all_at_once(tmp_path: Path) -> None:
    flags = {("gamma",): "17", ("drafts",): "b", ("http", "listen"): "0.0.0.0:1"}
    with pytest.raises(InvalidField) as caught:
        load(OrchestratorSettings, flags=flags)
    told = messages_of(caught.value)
    assert [message.partition(": got ")[0] for message in told] == ["gamma", "targets", "drafts", "http.listen"]
    assert told[-1].endswith("(flag --http-listen)")
    http = HttpSettings(listen="localhost:1", api_keys_file=tmp_path / "none", address_file=tmp_path / "no" / "file")
    with pytest.raises(InvalidField) as caught:
        OrchestratorSettings(targets=("localhost:1",), http=http, address_file=tmp_path / "no" / "file").check_files()
    fields = [message.partition(": got ")[0] for message in messages_of(caught.value)]
    assert fields == ["address_file", "http.api_keys_file", "http.address_file"]


@pytest.mark.parametrize(
    ("trust", "trusted"), [(("all",), True), (("none",), False), (("localhost:2",), True), (("localhost:3",), False)]
)
def test_trust_is_by_the_address_that_is_dialled(trust: tuple[str, ...], trusted: bool) -> None:
    settings = OrchestratorSettings(targets=("localhost:1",), drafts=("localhost:2", "localhost:3"), trust=trust)
    assert settings.trusted().of("localhost:2") is trusted


def test_a_name_is_trusted_with_all_that_it_stands_for() -> None:
    name = "dns:///localhost:2"
    settings = OrchestratorSettings(targets=("dns:///localhost:1",), drafts=(name, "localhost:3"), trust=(name,))
    assert settings.trusted().of(name)
    assert not settings.trusted().of("localhost:3")


def test_plaintext_off_this_machine_is_possible_when_it_is_asked_for() -> None:
    assert OrchestratorSettings(targets=("10.0.0.1:5",), insecure=True).targets == ("10.0.0.1:5",)


def test_units_are_turned_once() -> None:
    settings = OrchestratorSettings(
        targets=("localhost:1",), client_patience_s=1.5, round_limit_s=2.0, client_buffer=100
    )
    assert front_settings(settings).patience_us == 1_500_000
    assert (front_settings(settings).queue.full, front_settings(settings).queue.drained) == (100, 25)
    assert session_limits(settings).round_us == 2_000_000
