"""A function as a command of `foreword bench`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
import typer.core

from foreword.cli.commands import new_app
from loadtest.bench.options import with_file_of_json


class BenchCommand(typer.core.TyperCommand):
    """A command whose --json may stand without a file, which typer has no word for."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line."""
        return super().parse_args(ctx, with_file_of_json(args))


def bench_command(name: str, function: Callable[..., None]) -> typer.Typer:
    """Return what an entry point of the group `foreword.commands.bench` names."""
    app = new_app()
    app.command(name, cls=BenchCommand)(function)
    return app
