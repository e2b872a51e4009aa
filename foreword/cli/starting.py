"""What is settled before a stack starts, so that nothing is fetched or loaded in vain."""

from __future__ import annotations

from pathlib import Path

import typer

from foreword.cli.app import build, installed
from foreword.errors import InvalidField
from foreword.models.local import check_there
from foreword.models.source import ALLOWED
from foreword.stack.config import StackConfig, plan_drafts, plan_orchestrator, plan_target
from foreword.stack.port import check_port

_LATER = "127.0.0.1:1"
"""Stands for an address that is known once its service runs."""


def check_start(config: StackConfig) -> None:
    """Look whether the port is free, every service takes its settings, those of the environment too, and models exist.

    Raises Unavailable for the port, NotFound or Mismatch for a path without a model, and typer.Exit where settings are
    wrong, which stderr says then.
    """
    check_port(config)
    check_there(config.target, field="target")
    if config.draft_names and config.draft_model:
        _check_draft(config.draft_model)
    folder, drafts = Path(), [_LATER] * bool(config.draft_names)
    plans = [
        plan_target(config, folder),
        *plan_drafts(config, folder)[:1],
        plan_orchestrator(config, folder, target=_LATER, drafts=drafts),
    ]
    root = build(installed())
    for plan in plans:
        words = ["serve", *plan.argv[len(config.command) :], "--check"]
        status = root.main(words, "foreword", standalone_mode=False)
        if isinstance(status, int) and status:
            raise typer.Exit(status)


def _check_draft(model: str) -> None:
    try:
        check_there(model, field="draft", distilled=True)
    except InvalidField as error:
        if error.wanted != ALLOWED:
            raise
        raise InvalidField("draft", error.seen, f"lookup, bundled, mixed, mixed:MODEL, or a model: {ALLOWED}") from None
