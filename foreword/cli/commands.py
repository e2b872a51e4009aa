"""Commands that are loaded from entry points when they are used, and not before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from importlib.metadata import EntryPoint
from typing import Any, Final, cast

import typer
import typer.core

from foreword.cli.interrupts import quietly_interrupted
from foreword.errors import NotFound
from foreword.extras import missing_extra

_PLAIN_HELP: Final = "foreword.commands.serve"
"""Entry points whose options are listed without a table: its columns would cut the long names of settings off."""


class Commands(MutableMapping[str, Any]):
    """The commands of a group by name, for `typer.core.TyperGroup.commands`."""

    def __init__(self, entries: Iterable[EntryPoint]) -> None:
        self._known: dict[str, Any] = {entry.name: entry for entry in entries}

    def __getitem__(self, name: str) -> Any:
        if isinstance(self._known[name], EntryPoint):
            self._known[name] = _load(self._known[name])
        return self._known[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._known[name] = command

    def __delitem__(self, name: str) -> None:
        del self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._known))

    def __len__(self) -> int:
        return len(self._known)


def group(name: str, help_text: str, entries: Iterable[EntryPoint]) -> typer.core.TyperGroup:
    """Return a command that only holds others."""
    made = typer.core.TyperGroup(name=name, help=help_text, rich_markup_mode="rich")
    made.commands = Commands(entries)
    return made


def new_app(*, completion: bool = False) -> typer.Typer:
    """Return an app whose errors come out as they are; the root alone offers completion, which is for all commands."""
    return typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=completion)


def _load(entry: EntryPoint) -> Any:
    """Return the command of an entry point, which names a function or a typer app."""
    try:
        with quietly_interrupted():
            loaded = entry.load()
    except ModuleNotFoundError as error:
        loaded = _unavailable(entry.name, missing_extra(error))
    if not isinstance(loaded, typer.Typer):
        app = new_app()
        app.command(entry.name)(loaded)
        loaded = app
    command = typer.main.get_command(loaded)
    command.name = entry.name
    if entry.group == _PLAIN_HELP:
        cast(Any, command).rich_markup_mode = None
    return command


def _unavailable(name: str, reason: str) -> typer.Typer:
    """Return a command in the place of one that cannot be loaded; it says why."""
    app = new_app()

    @app.command(
        name,
        help=f"Not available: {reason}",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
        add_help_option=False,
    )
    def command(context: typer.Context) -> None:
        raise NotFound(f"{context.command_path}: {reason}")

    return app
