"""What `foreword up` says of its services."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from foreword.cli.up import Reporter
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
