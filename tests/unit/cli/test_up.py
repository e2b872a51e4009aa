"""What `foreword up` says of its services."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from foreword.cli import up
from foreword.cli.up import HTTP_PORT, Reporter
from foreword.errors import NotFound
from foreword.stack.config import StackConfig
from foreword.stack.events import ServiceEvent, ServiceState


@pytest.mark.parametrize(
    ("state", "detail", "words"),
    [
        (ServiceState.EXITED, "ended by SIGKILL", "draft        ended by SIGKILL"),
        (ServiceState.EXITED, "exited with status 1", "draft        exited with status 1"),
        (ServiceState.RESTARTING, "after 0.5 s", "draft        restarting after 0.5 s"),
        (ServiceState.SERVING, "127.0.0.1:7102", "draft        serving 127.0.0.1:7102"),
        (ServiceState.STOPPED, "", "draft        stopped"),
    ],
)
def test_an_event_reads_as_a_phrase(state: ServiceState, detail: str, words: str) -> None:
    text = io.StringIO()
    Reporter(Console(file=text, width=100)).event(ServiceEvent("draft", state, detail))
    assert text.getvalue() == f"{words}\n"


@pytest.mark.parametrize(
    ("words", "port"),
    [
        ((), HTTP_PORT),
        (("--port", "0"), 0),
        (("--http-port", "8123"), 8123),
        (("--port", "0", "--http-port", "8123"), 8123),
        (("--no-http",), None),
    ],
)
@pytest.mark.parametrize("installed", [True, False])
def test_where_http_is_served(cli, monkeypatch, words, port, installed) -> None:
    configs: list[StackConfig] = []

    async def run(config: StackConfig, *_: object, **__: object) -> int:
        configs.append(config)
        return 0

    def check(*names: str) -> None:
        if not installed:
            raise NotFound("needs fastapi")

    monkeypatch.setattr(up, "_up", run)
    monkeypatch.setattr(up, "check_start", lambda config: None)
    monkeypatch.setattr(up, "check_installed", check)
    assert cli("up", *words).status == 0
    assert configs[0].http_port == (port if installed or "--http-port" in words else None)


def test_a_port_of_http_and_no_http_contradict_each_other(cli) -> None:
    result = cli("up", "--no-http", "--http-port", "1")
    assert (result.status, result.err) == (2, "--http-port: got 1, wanted no port with --no-http\n")


def test_both_ports_are_not_one(cli):
    result = cli("up", "--port", "7606", "--http-port", "7606")
    assert (result.status, result.err) == (2, "--http-port: got 7606, wanted another port than --port\n")
