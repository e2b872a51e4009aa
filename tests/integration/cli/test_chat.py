"""chat: a conversation against a scripted server, through a pipe and on a terminal."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Self

import pytest

from foreword.protocol.generation import Chat
from foreword.testing.mock_server import MockServer, Reply, mock_info


@pytest.fixture
def server():
    with MockServer(["One.", "Two.", "Three.", "Four."]) as server:
        server.info = with_template(server.info)
        yield server


def with_template(info):
    return replace(info, model=replace(info.model, chat_template=True))


def said(request) -> list[tuple[str, str]]:
    assert isinstance(request.prompt, Chat)
    return [(turn.role, turn.content) for turn in request.prompt.messages]


def talk(cli, monkeypatch, server, lines: str, *argv: str):
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    return cli("chat", "--address", server.address, *argv)


def test_each_message_is_sent_with_what_was_said_before(cli, monkeypatch, server):
    result = talk(cli, monkeypatch, server, "a\nb \\\nc\n", "--system", "Be brief.", "--seed", "3", "--max-tokens", "9")
    assert (result.status, result.out, result.err) == (0, "One.\nTwo.\n", "")
    first, second = server.requests
    assert said(first) == [("system", "Be brief."), ("user", "a")]
    assert said(second) == [*said(first), ("assistant", "One."), ("user", "b \nc")]
    assert (second.seed, second.max_tokens) == (3, 9)


def test_commands_change_what_is_sent(cli, monkeypatch, server, tmp_path: Path):
    file = tmp_path / "talk.json"
    lines = f"a\n/retry\n/undo\nb\n/save {file}\n/system S\nc\n/quit\nnever\n"
    result = talk(cli, monkeypatch, server, lines)
    assert (result.status, result.out) == (0, "One.\nTwo.\nThree.\nFour.\n")
    assert [said(request) for request in server.requests] == [
        [("user", "a")],
        [("user", "a")],
        [("user", "b")],
        [("system", "S"), ("user", "c")],
    ]
    assert json.loads(file.read_text())[-1] == {"role": "assistant", "content": "Three."}
    again = talk(cli, monkeypatch, server, "d\n", "--load", str(file))
    assert again.status == 0
    assert said(server.requests[-1]) == [("user", "b"), ("assistant", "Three."), ("user", "d")]


@pytest.mark.parametrize(
    ("lines", "argv", "told"),
    [
        ("/undo\n", (), "command: got '/undo', wanted a message to take back"),
        ("/frobnicate\n", (), "command: got '/frobnicate', wanted one of /new"),
        ("/save\n", (), "save: got '', wanted the name of a file"),
        ("", ("--load", "nowhere.json"), "--load: got 'nowhere.json', wanted a"),
        ("", ("--load", "nowhere.json", "--system", "x"), "--system: got 'x', wanted none with --load"),
        ("a\n", ("--rule", "tree"), "--rule: got 'tree'"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(cli, monkeypatch, server, lines, argv, told):
    result = talk(cli, monkeypatch, server, lines, *argv)
    assert (result.status, result.out) == (2, "")
    assert told in result.err
    assert result.err.count("\n") == 1


def test_a_model_without_a_template_is_not_talked_to(cli, monkeypatch):
    with MockServer() as server:
        server.info = replace(mock_info(), model=replace(mock_info().model, chat_template=False))
        result = talk(cli, monkeypatch, server, "a\n")
    assert result.status == 2
    assert "wanted one with a chat template" in result.err


class Terminal:
    """The command on a pseudo-terminal."""

    def __init__(self, address: str) -> None:
        self._end, theirs = pty.openpty()
        argv = [sys.executable, "-m", "foreword.cli", "chat", "--address", address]
        self._process = subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
        os.close(theirs)
        self._seen = ""

    def wait_for(self, text: str) -> None:
        until = time.monotonic() + 60
        while text not in self._seen:
            assert time.monotonic() < until, self._seen
            if select.select([self._end], [], [], 1)[0]:
                try:
                    self._seen += os.read(self._end, 4096).decode()
                except OSError:
                    raise AssertionError(self._seen) from None
        self._seen = self._seen.partition(text)[2]

    def type(self, text: str) -> None:
        os.write(self._end, text.encode())

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def status(self) -> int:
        return self._process.wait(60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._end)


def test_an_interrupted_answer_stays_as_far_as_it_came():
    with MockServer([Reply("Half" + " more" * 500, delay_ms=200), "Then."]) as server:
        server.info = with_template(server.info)
        with Terminal(server.address) as terminal:
            terminal.wait_for("> ")
            terminal.type("a\n")
            terminal.wait_for("Half")
            terminal.interrupt()
            terminal.wait_for("stopped")
            terminal.wait_for("> ")
            terminal.type("b\n")
            terminal.wait_for("Then.")
            terminal.wait_for("> ")
            terminal.type("\x04")
            assert terminal.status() == 0
        assert said(server.requests[1])[1][0] == "assistant"
        assert said(server.requests[1])[1][1].startswith("Half")
