"""Models are fetched before services start, so that progress is seen and every service finds them."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Final

import typer

from foreword.errors import NotFound
from foreword.models.source import is_synthetic
from foreword.settings.command import EXIT_FAILED, EXIT_USAGE
from foreword.stack.config import StackConfig

_FETCH: Final = (sys.executable, "-m", "foreword.cli", "models", "fetch", "--source")
"""A process of its own: converting a model takes memory that it alone gives back."""
EXPLAINED: Final = (EXIT_FAILED, EXIT_USAGE)
"""Statuses that a command ends with once it has said why."""


def models_of(config: StackConfig) -> list[str]:
    """Return the models with weights that a stack loads and that may have to be fetched: no folders."""
    sources = [config.target, *([config.draft_model] if config.draft_names and config.draft_model else [])]
    return [source for source in dict.fromkeys(sources) if not (is_synthetic(source) or _is_folder(source))]


def _is_folder(source: str) -> bool:
    return Path(source).expanduser().is_dir()


async def fetch_models(config: StackConfig, *, command: tuple[str, ...] = _FETCH) -> None:
    """Fetch what is not there yet, with progress on stderr.

    Raises typer.Exit where that fails and stderr says why, NotFound where the fetching process was killed.
    """
    for source in models_of(config):
        # Its stdout is the folder's name, which nobody asked for here.
        process = await asyncio.create_subprocess_exec(
            *command, source, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL
        )
        try:
            status = await process.wait()
        except asyncio.CancelledError:
            process.terminate()
            await process.wait()
            raise
        if status in EXPLAINED:
            raise typer.Exit(status)
        if status != 0:
            raise NotFound(f"model: got {source}, wanted one that can be fetched (status {status})")
