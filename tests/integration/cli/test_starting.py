"""What up and demo refuse before they fetch, load or start anything."""

from __future__ import annotations

import socket

import pytest

from foreword.cli import demo, up
from foreword.errors import Unavailable
from foreword.stack.config import StackConfig
from foreword.stack.stack import Stack


@pytest.fixture(autouse=True)
def nothing_is_fetched(monkeypatch):
    async def fetch(config):
        pytest.fail("models are fetched")

    for module in (up, demo):
        monkeypatch.setattr(module, "fetch_models", fetch)


@pytest.fixture
def taken():
    """Return a port that somebody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_port_that_is_taken_is_named(cli, taken):
    result = cli("up", "--port", str(taken))
    assert result.status == 1
    found = f"got {taken}, which cannot be bound on 127.0.0.1 (Address already in use)"
    assert result.err == f"--port: {found}, wanted a free one; 0 takes any\n"


def test_a_port_of_http_that_is_taken_is_named(cli, taken):
    result = cli("up", "--port", "0", "--http-port", str(taken))
    assert result.status == 1
    assert result.err.startswith(f"--http-port: got {taken}, which cannot be bound on 127.0.0.1")


async def test_a_stack_looks_at_its_port_first(taken):
    events = []
    with pytest.raises(Unavailable, match=f"port: got {taken}"):
        await Stack(StackConfig(target="synthetic", port=taken), on_event=events.append).start()
    assert events == []


@pytest.mark.parametrize("command", [("up", "--port", "0"), ("demo",)])
def test_settings_that_a_service_would_refuse_are_refused_at_once(cli, command, monkeypatch):
    result = cli(*command, "--gamma", "300")
    assert (result.status, result.err) == (2, "--gamma: got 300, wanted a whole number from 0 to 256\n")
    monkeypatch.setenv("FOREWORD_TARGET_PAGE_SIZE", "none")
    result = cli(*command)
    assert result.status == 2
    assert result.err.startswith("page_size: got 'none', wanted a whole number from 1 to 1024")
    assert "FOREWORD_TARGET_PAGE_SIZE" in result.err


@pytest.mark.parametrize("command", [("up", "--port", "0"), ("demo",)])
@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("--target", "synthetic:bogus=3"), 2, "--target: got 'synthetic:bogus=3', wanted for 'bogus=3' NAME="),
        (("--target", "synthetic", "--draft", "synthetic:vocab=abc"), 2, "--draft: got 'synthetic:vocab=abc', wanted"),
        (("--target", "./nope"), 1, "--target: no folder ./nope, wanted"),
        (("--target", "nope"), 2, "--target: got 'nope', wanted embedded, a folder"),
        (("--target", ""), 2, "--target: got '', wanted embedded, a folder"),
        (
            ("--target", "synthetic", "--draft", "nope"),
            2,
            "--draft: got 'nope', wanted lookup, bundled, mixed, mixed:MODEL, or a model: embedded, ",
        ),
        (("--target", "synthetic", "--draft", ""), 2, "--draft: got '', wanted what drafts"),
        (("--target", "synthetic", "--draft", "./nope"), 1, "--draft: no folder ./nope, wanted"),
    ],
)
def test_models_that_cannot_be_are_refused_at_once(cli, command, words, status, says):
    result = cli(*command, *words)
    assert result.status == status
    assert says in result.err
    assert result.err.count("\n") == 1
