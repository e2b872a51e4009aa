"""docs/cases.md names tests that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "cases.md"
TEST = re.compile(r"`([\w/]+\.py)::([\w:]+)`")


@cache
def names_in(path: str) -> frozenset[str]:
    """Return what pytest calls the tests in a file: functions, and methods behind their class."""
    file = ROOT / "tests" / path
    tree = ast.parse(file.read_text(encoding="utf-8")) if file.is_file() else ast.Module([], [])
    owners = [("", tree.body), *((f"{node.name}::", node.body) for node in tree.body if isinstance(node, ast.ClassDef))]
    return frozenset(
        f"{owner}{node.name}"
        for owner, body in owners
        for node in body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


def test_every_test_that_is_named_exists() -> None:
    named = TEST.findall(PAGE.read_text(encoding="utf-8"))
    assert named
    assert [f"{path}::{name}" for path, name in named if name not in names_in(path)] == []


def test_every_case_names_a_test() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    cases = [row for row in rows if not row.startswith(("| reported |", "| --- |"))]
    assert len(cases) > 30
    assert [row[:60] for row in cases if not TEST.search(row)] == []


def test_the_page_speaks_of_behaviour_and_not_of_trackers() -> None:
    """Numbers of issues mean nothing to who reads this."""
    assert re.findall(r"(?i)\bissues?\b|\bPR\b|#\d+", PAGE.read_text(encoding="utf-8")) == []
