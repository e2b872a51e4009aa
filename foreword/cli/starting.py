"""What is settled before a stack starts, so that nothing is fetched or loaded in vain."""

from __future__ import annotations

from pathlib import Path

import typer

from foreword.cli.app import build, installed
from foreword.stack.config import StackConfig, plan_drafts, plan_orchestrator, plan_target
from foreword.stack.port import check_port

_LATER = "127.0.0.1:1"
"""Stands for an address that is known once its service runs."""


def check_start(config: StackConfig) -> None:
    """Look whether the port is free and every service takes its settings, those of the environment included.

    Raises InvalidField for the port, and typer.Exit where settings are wrong, which stderr says then.
    """
    check_port(config)
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
