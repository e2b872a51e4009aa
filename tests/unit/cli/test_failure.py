"""What went wrong, told to whoever typed a command: their flags, what to do, when to ask again."""

from __future__ import annotations

import pytest

from foreword.cli.failure import failure_line
from foreword.errors import (
    DeadlineExceeded,
    EngineFailure,
    ForewordError,
    Full,
    InvalidField,
    NotFound,
    Unavailable,
)

FLAGS = {name: f"--{name.replace('_', '-')}" for name in ("gamma", "max_tokens", "timeout", "drafter", "address")}
FLAGS |= {"target": "--target", "tls_key": "--tls-key", "rule": "--rule"}


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (InvalidField("speculation.gamma", 99, "a whole number to 16"), "--gamma: got 99, wanted a whole number to 16"),
        (
            InvalidField("law.min_tokens", 9, "at most max_tokens, 8"),
            "law.min_tokens: got 9, wanted at most --max-tokens, 8",
        ),
        (InvalidField("p.jsonl:1", "x", "as max_tokens 1"), "p.jsonl:1: got 'x', wanted as max_tokens 1"),
        (InvalidField("tls.key", None, "a file"), "--tls-key: got None, wanted a file"),
        (
            InvalidField("rule", "x", "one of match, or None to leave it to the server"),
            "--rule: got 'x', wanted one of match",
        ),
        (InvalidField("prompt", "", "at least one token"), "prompt: got '', wanted at least one token"),
        (NotFound("speculation.drafter: got 'model', wanted lookup"), "--drafter: got 'model', wanted lookup"),
        (Unavailable("target: got no service, wanted one soon"), "target: got no service, wanted one soon"),
        (EngineFailure("engine: died"), "engine: died"),
        (DeadlineExceeded("timeout_s: the call was not over in time"), "--timeout 2.5: the call was not over in time"),
        (Full("target a:1: full", retry_after_ms=700), "target a:1: full; ask again in 700 ms"),
        (
            Unavailable("address: got localhost:1, wanted a server that answers (Connection refused)"),
            "--address: got localhost:1, wanted a server that answers (Connection refused); "
            "start it: foreword up --port 1",
        ),
        *(
            (
                Unavailable(f"address: got 127.0.0.1:50051, wanted a server that answers ({words})"),
                f"--address: got 127.0.0.1:50051, wanted a server that answers ({words}); "
                "something that is not Foreword, or does not answer, listens there",
            )
            for words in (
                "Failed parsing HTTP/2 (Expected SETTINGS frame as the first frame, got frame type 79)",
                "connection attempt timed out before receiving SETTINGS frame",
            )
        ),
        (
            Unavailable("address: got 127.0.0.1:50051, wanted a server that answers (x)"),
            "--address: got 127.0.0.1:50051, wanted a server that answers (x); start it: foreword up",
        ),
        (
            Unavailable("address: got a:1, wanted a server that answers (Domain name not found)"),
            "--address: got a:1, wanted a server that answers (Domain name not found); "
            "look at the address, and at whether it serves there",
        ),
        (
            Unavailable("address: got a:1, wanted a server that answers (Socket closed)"),
            "--address: got a:1, wanted a server that answers (Socket closed); "
            "look at --tls-ca, --tls-cert and --tls-key: both ends speak TLS, or neither",
        ),
        (
            Unavailable("address: got a:1, wanted a server that answers (Stream removed (Socket closed))"),
            "--address: got a:1, wanted a server that answers (Stream removed (Socket closed)); "
            "the connection was lost in the middle of the answer: ask again, or look at the server's log",
        ),
        (
            Unavailable("address: got a:1, wanted a server that answers (handshake failed: CERTIFICATE_VERIFY_FAILED)"),
            "--address: got a:1, wanted a server that answers (handshake failed: CERTIFICATE_VERIFY_FAILED); "
            "look at --tls-ca: it has to be the authority that signed the server's certificate",
        ),
    ],
)
def test_failures_are_told_in_the_words_of_the_command_line(error: ForewordError, line: str) -> None:
    assert failure_line(error, FLAGS, ["generate", "x", "--timeout", "2.5"]) == line


def test_a_limit_that_was_not_typed_has_no_value() -> None:
    error = DeadlineExceeded("timeout_s: the call was not over in time")
    assert failure_line(error, FLAGS, ["generate", "x"]) == "--timeout: the call was not over in time"
    assert failure_line(error, FLAGS, ["x", "--timeout=3"]) == "--timeout 3: the call was not over in time"
    assert failure_line(error, {}, ["doctor"]) == error.message
