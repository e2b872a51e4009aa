"""The command-line side of settings: every field is a flag, errors are one line, the service runs until it is told."""

from __future__ import annotations

import asyncio
import difflib
import inspect
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import structlog
import typer

from foreword.errors import ForewordError, InvalidField
from foreword.settings.base import ServerSettings, Settings
from foreword.settings.checks import messages_of
from foreword.settings.environment import unknown_variables
from foreword.settings.fields import Leaf, leaves
from foreword.settings.load import load
from foreword.telemetry.logs import configure_logs, resolve_format

_log = structlog.stdlib.get_logger(__name__)

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

S = TypeVar("S", bound=Settings)
Server = TypeVar("Server", bound=ServerSettings)


def serve_command(
    kind: type[Server], run: Callable[[Server], Awaitable[None]], *, description: str
) -> Callable[..., None]:
    """Return a command that loads the settings, configures logs and runs the service until it ends."""

    def start(settings: Server) -> None:
        resolved = settings.log.model_copy(update={"format": resolve_format(settings.log.format)})
        configure_logs(resolved.level, resolved.format)
        for remark in _unknown(kind):
            _log.warning("unknown variable", remark=remark)
        # The engine logs through this process, which knows whether a terminal is at the end.
        asyncio.run(_awaited(run(settings.model_copy(update={"log": resolved}))))

    return settings_command(kind, start, description=description)


def settings_command(kind: type[S], start: Callable[[S], None], *, description: str) -> Callable[..., None]:
    """Return a function for `typer.Typer.command`: a flag for every field, `--config` and `--check`; calls `start`.

    A ForewordError ends it with one line on stderr and status 1; wrong settings, InvalidField, with a line each and
    status 2.
    """
    known = {"_".join(leaf.path): leaf for leaf in leaves(kind, str(kind.model_config.get("env_prefix", "")))}

    def command(config: Path | None = None, check: bool = False, **given: object) -> None:
        flags = {known[name].path: value for name, value in given.items() if value is not None}
        try:
            settings = load(kind, flags=flags, config=config, files=True)
            if not check:
                start(settings)
            else:
                for remark in _unknown(kind):
                    typer.echo(remark, err=True)
        except InvalidField as error:
            _fail(error, EXIT_USAGE)
        except ForewordError as error:
            _fail(error, EXIT_FAILED)
        except KeyboardInterrupt:
            raise typer.Exit(EXIT_INTERRUPTED) from None

    parameters = [_config_parameter(), _check_parameter(), *(_parameter(name, leaf) for name, leaf in known.items())]
    command.__doc__ = description
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _unknown(kind: type[Settings]) -> Iterator[str]:
    """Yield a remark on each variable that looks like one of the settings; no error, for others may name theirs so."""
    prefix = str(kind.model_config.get("env_prefix", ""))
    known = {leaf.variable.removeprefix(prefix): leaf.variable for leaf in leaves(kind, prefix)}
    for name in unknown_variables(prefix, set(known.values())):
        close = difflib.get_close_matches(name.upper().removeprefix(prefix), known, n=1)
        yield f"{name}: got a variable that is no setting" + (f"; did you mean {known[close[0]]}?" if close else "")


def _config_parameter() -> inspect.Parameter:
    option = typer.Option("--config", metavar="PATH", help="YAML or TOML file of settings; flags and environment win.")
    return _keyword("config", Annotated[Path | None, option])


def _check_parameter() -> inspect.Parameter:
    option = typer.Option("--check", help="Say what is wrong with the settings, if anything, and end.")
    return inspect.Parameter("check", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, option])


def _parameter(name: str, leaf: Leaf) -> inspect.Parameter:
    declaration = f"{leaf.flag}/--no-{leaf.flag[2:]}" if leaf.is_switch else leaf.flag
    option = typer.Option(
        declaration,
        help=_help(leaf),
        metavar=None if leaf.is_switch else leaf.path[-1].upper(),
        show_default=False,
        rich_help_panel="Options" if len(leaf.path) == 1 else f"Options: {' '.join(leaf.path[:-1])}",
    )
    return _keyword(name, Annotated[bool | None, option] if leaf.is_switch else Annotated[str | None, option])


def _keyword(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _help(leaf: Leaf) -> str:
    allowed = "" if leaf.is_switch or leaf.wanted == "text" else leaf.wanted
    default = f"default {leaf.default}" if leaf.default else ""
    return f"{leaf.info.description} ({'; '.join(filter(None, (allowed, leaf.unit, default, leaf.variable)))})"


async def _awaited(work: Awaitable[None]) -> None:
    await work


def _fail(error: ForewordError, status: int) -> NoReturn:
    for message in messages_of(error):
        typer.echo(" ".join(message.split()), err=True)
    raise typer.Exit(status)
