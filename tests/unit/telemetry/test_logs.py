"""Lines as people and as machines read them."""

import io
import json
import logging
import warnings

import pytest
import structlog

from foreword.telemetry.logs import LogFormat, LogLevel, configure_logs, resolve_format


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def stream():
    """A place for lines; logging is as before afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def test_auto_is_console_on_a_terminal_and_json_elsewhere():
    assert resolve_format(LogFormat.AUTO, Terminal()) is LogFormat.CONSOLE
    assert resolve_format(LogFormat.AUTO, io.StringIO()) is LogFormat.JSON
    assert resolve_format(LogFormat.JSON, Terminal()) is LogFormat.JSON


def test_json_lines_carry_what_is_bound_and_what_is_said(stream):
    configure_logs(LogLevel.INFO, LogFormat.AUTO, stream=stream)
    with structlog.contextvars.bound_contextvars(request_id="r-1", sid=7, round=3):
        structlog.stdlib.get_logger("a.b").info("verified", kept=2, text="γ")
        logging.getLogger("other").warning("from %s", "stdlib")
    structlog.stdlib.get_logger("a.b").debug("not shown")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert len(lines) == 2
    for line, name, level, event in zip(
        lines, ("a.b", "other"), ("info", "warning"), ("verified", "from stdlib"), strict=True
    ):
        assert (line["logger"], line["level"], line["event"]) == (name, level, event)
        assert (line["request_id"], line["sid"], line["round"]) == ("r-1", 7, 3)
        assert line["timestamp"].endswith("Z")
    assert (lines[0]["kept"], lines[0]["text"]) == (2, "γ")


def test_a_traceback_is_part_of_its_line(stream):
    configure_logs(LogLevel.INFO, LogFormat.JSON, stream=stream)
    try:
        raise ValueError("two\nlines")
    except ValueError:
        structlog.stdlib.get_logger("x").exception("failed")
    (line,) = stream.getvalue().splitlines()
    (error,) = json.loads(line)["exception"]
    assert (error["exc_type"], error["exc_value"]) == ("ValueError", "two\nlines")


@pytest.mark.parametrize("choice", [LogFormat.JSON, LogFormat.CONSOLE])
def test_a_traceback_shows_no_values_of_variables(stream, choice):
    configure_logs(LogLevel.INFO, choice, stream=stream)
    prompt = "-".join(("what", "a", "client", "wrote"))
    try:
        {}[len(prompt)]
    except KeyError:
        structlog.stdlib.get_logger("x").exception("failed")
    assert "KeyError" in stream.getvalue()
    assert prompt not in stream.getvalue()


def test_console_lines_and_levels(stream):
    configure_logs(LogLevel.WARNING, LogFormat.CONSOLE, stream=stream)
    structlog.stdlib.get_logger("x").info("hidden")
    structlog.stdlib.get_logger("x").warning("shown", n=1)
    (line,) = stream.getvalue().splitlines()
    assert "shown" in line
    assert "n=1" in line
    assert "\x1b" not in line


def test_a_second_call_replaces_the_first(stream):
    first = io.StringIO()
    configure_logs(LogLevel.INFO, LogFormat.JSON, stream=first)
    configure_logs(LogLevel.INFO, LogFormat.JSON, stream=stream)
    logging.getLogger("x").warning("once")
    assert first.getvalue() == ""
    assert len(stream.getvalue().splitlines()) == 1


def test_warnings_are_lines(stream, monkeypatch):
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # put back afterwards
    logging.captureWarnings(False)  # as in a process that is new
    configure_logs(LogLevel.INFO, LogFormat.JSON, stream=stream)
    warnings.showwarning("old", DeprecationWarning, "file.py", 3)
    (line,) = map(json.loads, stream.getvalue().splitlines())
    assert (line["logger"], line["level"]) == ("py.warnings", "warning")
    assert "DeprecationWarning: old" in line["event"]
    logging.captureWarnings(False)
