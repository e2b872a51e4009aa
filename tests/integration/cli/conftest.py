"""The command line in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint

import pytest

from foreword.cli.app import COMMANDS, run

NAMES = ("chat", "demo", "doctor", "generate", "top", "up")
OWN = [EntryPoint(name, f"foreword.cli.{name}:command", COMMANDS) for name in NAMES]


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    status: int
    out: str
    err: str


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Run a command line over our own commands and further entry points."""

    def call(*argv: str, more: list[EntryPoint] | None = None) -> Result:
        capsys.readouterr()
        status = run(argv, found=[*OWN, *(more or [])])
        out, err = capsys.readouterr()
        return Result(status, out, err)

    return call
