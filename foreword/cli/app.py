"""The command tree, and what becomes of errors: one line on stderr and an exit status, never a traceback."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated

import typer
import typer.core

from foreword._version import __version__
from foreword.cli.commands import Commands, group, new_app
from foreword.cli.failure import failure_line
from foreword.cli.interrupts import EXIT_INTERRUPTED
from foreword.cli.usage import flags_of, usage_line
from foreword.errors import ForewordError, InvalidField
from foreword.extras import missing_extra

COMMANDS = "foreword.commands"
GROUPS = {
    "serve": "Run one service: target, draft or orchestrator.",
    "bench": "Measure.",
}
"""Commands that only hold others; their entry points are in the group `foreword.commands.NAME`."""

EXIT_FAILED, EXIT_USAGE = 1, 2


def run(argv: Sequence[str], *, found: Iterable[EntryPoint] | None = None) -> int:
    """Run the command line and return its exit status; `found` are the entry points, by default the installed ones."""
    words = [word for word in argv if word != "--debug"]
    root = build(installed() if found is None else found)
    try:
        result = root.main(words, "foreword", standalone_mode=False)
    except Exception as error:
        if len(words) < len(argv):
            traceback.print_exc()
        if isinstance(error, typer.TyperException):
            return _complain(usage_line(error, root, words), status=EXIT_USAGE)
        if isinstance(error, ForewordError):
            status = EXIT_USAGE if isinstance(error, InvalidField) else EXIT_FAILED
            return _complain(failure_line(error, flags_of(root, words), words), status=status)
        return _failed(error)
    return result if isinstance(result, int) else 0


def installed() -> list[EntryPoint]:
    """Return the entry points of everything that is installed."""
    names = (COMMANDS, *(f"{COMMANDS}.{name}" for name in GROUPS))
    return [entry for name in names for entry in entry_points(group=name)]


def build(found: Iterable[EntryPoint]) -> typer.core.TyperGroup:
    """Return the command tree over entry points; none is loaded before it is used."""
    known = list(found)
    app = new_app(completion=True)
    app.callback(invoke_without_command=True, help="Serve a large language model faster, with drafts.")(_root)
    root = typer.main.get_group(app)
    root.commands = Commands(entry for entry in known if entry.group == COMMANDS)
    for name, help_text in GROUPS.items():
        entries = [entry for entry in known if entry.group == f"{COMMANDS}.{name}"]
        if entries:
            root.commands[name] = group(name, help_text, entries)
    return root


def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the release and exit.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks; may stand anywhere.")] = False,
) -> None:
    del debug  # taken out of the command line by `run`, and declared for --help only
    if version:
        typer.echo(f"foreword {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _failed(error: Exception) -> int:
    """Say in one line what went wrong and return the exit status."""
    if isinstance(error, typer.Abort):
        return EXIT_INTERRUPTED
    if isinstance(error, ModuleNotFoundError):
        return _complain(f"foreword: {missing_extra(error)}", status=EXIT_FAILED)
    kind = type(error).__name__
    return _complain(f"foreword: internal error: {kind}: {error} (--debug shows the traceback)", status=EXIT_FAILED)


def _complain(message: str, *, status: int) -> int:
    sys.stderr.write(" ".join(message.split()) + "\n")
    return status
