"""`foreword up`: target, draft and orchestrator on this machine, in the foreground."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Mapping
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.text import Text

from foreword.cli import options
from foreword.cli.fetching import fetch_models
from foreword.cli.output import stderr
from foreword.cli.starting import check_start
from foreword.client import DEFAULT_ADDRESS
from foreword.errors import InvalidField, NotFound
from foreword.extras import check_installed
from foreword.stack.config import AUTO_DRAFT, DEFAULT_TARGET, StackConfig
from foreword.stack.events import ServiceEvent, ServiceState
from foreword.stack.stack import Stack

HTTP_PORT: Final = 8000
_HINT: Final = "Why do leaves fall?"
"""What to try: at temperature 0, for a small model wanders at 1."""
_COLOURS: Final[Mapping[str, str]] = {"target": "magenta", "draft": "green", "orchestrator": "blue"}
_CONSOLE_LOGS: Final[Mapping[str, tuple[str, ...]]] = dict.fromkeys(_COLOURS, ("--log-format", "console"))


def command(
    port: Annotated[int, typer.Option(help="Port that clients call; 0 takes a free one.")] = int(
        DEFAULT_ADDRESS.rpartition(":")[2]
    ),
    http_port: Annotated[
        int | None,
        typer.Option(help="Port of the OpenAI-shaped API over HTTP; 0 takes a free one.", show_default=str(HTTP_PORT)),
    ] = None,
    no_http: Annotated[bool, typer.Option("--no-http", help="Serve no HTTP.")] = False,
    target: options.Target = DEFAULT_TARGET,
    draft: options.Draft = AUTO_DRAFT,
    drafts: options.Drafts = 1,
    no_draft: options.NoDraft = False,
    gamma: options.Gamma = None,
    dtype: options.Dtype = "float32",
    threads: options.Threads = 0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not show the services' logs.")] = False,
) -> None:
    """Start a target, drafts and an orchestrator on loopback, watch them, and stop them on Ctrl-C."""
    if no_draft and draft != AUTO_DRAFT:
        raise InvalidField("draft", draft, "no draft with --no-draft")
    if no_draft and drafts not in (0, 1):
        raise InvalidField("drafts", drafts, "no number with --no-draft")
    if no_http and http_port is not None:
        raise InvalidField("http_port", http_port, "no port with --no-http")
    if http_port == port != 0:
        raise InvalidField("http_port", http_port, "another port than --port")
    console = stderr()
    config = StackConfig(
        target=target,
        draft=None if no_draft else draft,
        drafts=drafts,
        gamma=gamma,
        dtype=dtype,
        threads=threads,
        port=port,
        http_port=None if no_http else _http_port(http_port, port=port),
        arguments=_CONSOLE_LOGS if console.is_terminal else {},
    )
    check_start(config)
    raise typer.Exit(asyncio.run(_up(config, console, quiet=quiet)))


def _http_port(given: int | None, *, port: int) -> int | None:
    """Return the port of HTTP: the usual one, a free one where gRPC takes one too, none without the extra for it."""
    if given is not None:
        return given
    try:
        check_installed("fastapi", "uvicorn")
    except NotFound:
        return None
    return HTTP_PORT if port else 0


async def _up(config: StackConfig, console: Console, *, quiet: bool) -> int:
    """Run the stack until a signal comes; return the exit status."""
    reporter = Reporter(console, quiet=quiet)
    stack = Stack(config, on_event=reporter.event, on_log=reporter.log)
    received: list[signal.Signals] = []
    running = asyncio.create_task(_run(stack, config, console))
    loop = asyncio.get_running_loop()

    def stop(number: signal.Signals) -> None:
        console.print(f"stopping; requests that run get up to {config.grace_s:g} s", style="bold")
        received.append(number)
        running.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    with contextlib.suppress(asyncio.CancelledError):
        await running
    return 130 if signal.SIGINT in received else 0


async def _run(stack: Stack, config: StackConfig, console: Console) -> None:
    await fetch_models(config)
    async with stack:
        flag = "" if stack.address == DEFAULT_ADDRESS else f" --address {stack.address}"
        console.print(
            f"serving on {stack.address}; try: foreword generate --temperature 0{flag} '{_HINT}'", style="bold"
        )
        if stack.http_address is not None:
            console.print(
                f"HTTP as OpenAI's on http://{stack.http_address}/v1; a page to try it: http://{stack.http_address}",
                style="bold",
            )
        await asyncio.Event().wait()


class Reporter:
    """Shows what happens to services, and their logs with their names in front."""

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet

    def event(self, event: ServiceEvent) -> None:
        """Show a change of a service."""
        style = "red" if event.state in (ServiceState.EXITED, ServiceState.RESTARTING) else "default"
        ended = event.state is ServiceState.EXITED and event.detail  # which says how it ended, in a whole phrase
        words = event.detail if ended else f"{event.state.value} {event.detail}".rstrip()
        self._console.print(Text.assemble(_name(event.service), (words, style)))

    def log(self, service: str, line: str) -> None:
        """Show a line of a service's log."""
        if not self._quiet:
            self._console.print(Text.assemble(_name(service), Text.from_ansi(line)))


def _name(service: str) -> tuple[str, str]:
    return f"{service:<12} ", _COLOURS.get(service.partition("-")[0], "default")
