"""Structured logs on stderr: readable on a terminal, one JSON object a line elsewhere.

`structlog.contextvars.bind_contextvars(request_id=…, sid=…, round=…)` puts what is bound into every line of a task,
those of the standard library's loggers included.
"""

from __future__ import annotations

import logging
import sys
from enum import Enum
from typing import TextIO

import structlog


class LogFormat(Enum):
    """How lines look."""

    AUTO = "auto"
    CONSOLE = "console"
    JSON = "json"


class LogLevel(Enum):
    """Least severity that is shown."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def resolve_format(choice: LogFormat, stream: TextIO | None = None) -> LogFormat:
    """Return `choice`, with AUTO settled by whether the stream (stderr) is a terminal."""
    if choice is not LogFormat.AUTO:
        return choice
    return LogFormat.CONSOLE if (stream or sys.stderr).isatty() else LogFormat.JSON


def configure_logs(level: LogLevel, choice: LogFormat, *, stream: TextIO | None = None) -> None:
    """Send structlog's and the standard library's lines to `stream` (stderr); a later call replaces an earlier one.

    Warnings of Python become lines too.
    """
    target = stream or sys.stderr
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(target)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_renderers(resolve_format(choice, target), colors=target.isatty()),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.name)
    logging.captureWarnings(capture=True)


def _renderers(choice: LogFormat, *, colors: bool) -> list[structlog.typing.Processor]:
    # Tracebacks without local variables: those hold prompts, outputs and keys.
    if choice is LogFormat.CONSOLE:
        return [structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)]
    transformer = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
    return [
        structlog.processors.ExceptionRenderer(transformer),
        structlog.processors.JSONRenderer(ensure_ascii=False, default=str),
    ]
