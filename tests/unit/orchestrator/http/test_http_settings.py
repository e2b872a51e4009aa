"""Settings of the HTTP API: what is refused, and that keys are never shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from foreword.errors import InvalidField
from foreword.rpc.tls import TlsFiles
from foreword.settings.load import load
from orchestrator.http.settings import HttpSettings, read_keys_file
from orchestrator.http.tls import pair_for
from orchestrator.settings import OrchestratorSettings

REFUSED = [
    ({"listen": "here"}, "http.listen"),
    ({"listen": "localhost:70000"}, "http.listen"),
    ({"listen": "unix:/tmp/x"}, "http.listen"),
    ({"cert": Path("c")}, "http.cert"),
    ({"key": Path("k")}, "http.key"),
    ({"api_keys": ("two words",)}, "http.api_keys"),
    ({"api_keys": "ä"}, "http.api_keys"),
    ({"root_path": "llm"}, "http.root_path"),
    ({"root_path": "/llm/"}, "http.root_path"),
    ({"cors_origins": ("example.com",)}, "http.cors_origins"),
    ({"cors_origins": ("https://example.com/",)}, "http.cors_origins"),
]


@pytest.mark.parametrize(("values", "field"), REFUSED)
def test_refusals_name_the_field(values: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidField) as caught:
        HttpSettings(**values)
    assert caught.value.field == field


def test_http_is_off_unless_it_is_asked_for() -> None:
    assert not OrchestratorSettings(targets=("localhost:1",)).http.enabled


def test_no_message_and_no_print_shows_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREWORD_ORCHESTRATOR_HTTP__API_KEYS", "open-sesame,sesame two")
    with pytest.raises(InvalidField) as caught:
        load(OrchestratorSettings, flags={("targets",): "localhost:1"})
    assert "sesame" not in str(caught.value)
    assert "environment FOREWORD_ORCHESTRATOR_HTTP__API_KEYS" in str(caught.value)
    monkeypatch.setenv("FOREWORD_ORCHESTRATOR_HTTP__API_KEYS", "open-sesame, other")
    settings = load(OrchestratorSettings, flags={("targets",): "localhost:1"})
    assert "sesame" not in repr(settings) + str(settings) + settings.model_dump_json()
    assert settings.http.read_keys() == ("open-sesame", "other")


def test_a_key_of_a_wrong_type_is_not_shown_either(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("targets: localhost:1\nhttp:\n  api_keys: 12345678\n")
    with pytest.raises(InvalidField) as caught:
        load(OrchestratorSettings, config=config)
    assert caught.value.field == "http.api_keys"
    assert "12345678" not in str(caught.value)


def test_keys_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("# ours\n one \n\ntwo\n")
    assert read_keys_file(path) == ("one", "two")
    assert HttpSettings(api_keys=("zero",), api_keys_file=path).read_keys() == ("zero", "one", "two")
    path.write_text("# nothing\n")
    with pytest.raises(InvalidField, match=r"http\.api_keys_file: got .*wanted a file with at least one key"):
        read_keys_file(path)
    with pytest.raises(InvalidField, match="a file that can be read"):
        read_keys_file(tmp_path / "nowhere")


OFF = "10.0.0.1:80"


@pytest.mark.parametrize(
    ("values", "tls", "insecure", "fits"),
    [
        ({"listen": "127.0.0.1:0"}, False, False, True),
        ({"listen": OFF}, False, False, False),
        ({"listen": OFF, "api_keys": ("k",)}, False, False, False),
        ({"listen": OFF}, True, False, False),
        ({"listen": OFF, "api_keys": ("k",)}, True, False, True),
        ({"listen": OFF, "api_keys": ("k",), "cert": Path("c"), "key": Path("k")}, False, False, True),
        ({"listen": OFF, "insecure": True}, False, False, True),
        ({"listen": OFF}, False, True, True),
        ({}, False, False, True),
    ],
)
def test_off_loopback_it_takes_certificates_and_keys_or_a_word(
    values: dict[str, Any], tls: bool, insecure: bool, fits: bool
) -> None:
    settings = HttpSettings(**values)
    if fits:
        settings.check_exposure(tls=tls, insecure=insecure)
        return
    with pytest.raises(InvalidField) as caught:
        settings.check_exposure(tls=tls, insecure=insecure)
    assert caught.value.field == "http.listen"


def test_the_orchestrator_checks_it_too() -> None:
    with pytest.raises(InvalidField, match="http-insecure"):
        OrchestratorSettings(targets=("localhost:1",), http=HttpSettings(listen=OFF))


def test_files_are_looked_at_where_http_is_served(tmp_path: Path) -> None:
    HttpSettings(api_keys_file=tmp_path / "nowhere").check_files()
    for values in (
        {"api_keys_file": tmp_path / "nowhere"},
        {"cert": tmp_path / "c", "key": tmp_path / "k"},
        {"address_file": tmp_path / "nowhere" / "file"},
    ):
        with pytest.raises(InvalidField):
            HttpSettings(listen="localhost:0", **values).check_files()


def test_which_certificate_is_shown() -> None:
    own, service = (Path("c"), Path("k")), TlsFiles(Path("C"), Path("K"), Path("A"))
    assert pair_for(HttpSettings(), None) is None
    assert pair_for(HttpSettings(), service) == (Path("C"), Path("K"))
    assert pair_for(HttpSettings(insecure=True), service) is None
    assert pair_for(HttpSettings(cert=own[0], key=own[1], insecure=True), service) == own
