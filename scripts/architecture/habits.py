"""What a module may do: its size, what it prints, what it reads of the environment."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scripts.architecture.source import Module, Tree, Violation, within

LONGEST = 400
"""Lines of a file."""
PRINTS = ("foreword.cli",)
READS_ENVIRONMENT = ("foreword.settings",)
"""Who may read the environment, or copy it for a process to be started; also every module named `settings`."""

ENVIRONMENT = frozenset({"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"})
"""Names of the os module."""


def violations(tree: Tree) -> Iterator[Violation]:
    """Yield everything in `tree` that breaks a rule."""
    for module in tree.modules.values():
        lines = module.text.count("\n")
        if lines > LONGEST:
            yield Violation(module.path, LONGEST + 1, f"got {lines} lines, wanted at most {LONGEST}")
        if not within(module.name, *PRINTS):
            for line in _prints(module):
                yield Violation(module.path, line, f"{module.name} prints, only {', '.join(PRINTS)} may")
        if not _may_read_environment(module):
            for line in _environment(module):
                yield Violation(module.path, line, f"{module.name} reads the environment, only settings may")


def _prints(module: Module) -> Iterator[int]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield node.lineno


def _environment(module: Module) -> Iterator[int]:
    for node in ast.walk(module.tree):
        match node:
            case ast.Attribute(value=ast.Name(id="os"), attr=name) if name in ENVIRONMENT:
                yield node.lineno
            case ast.ImportFrom(module="os", names=names) if any(alias.name in ENVIRONMENT for alias in names):
                yield node.lineno


def _may_read_environment(module: Module) -> bool:
    *_, last = module.name.split(".")
    return last == "settings" or within(module.name, *READS_ENVIRONMENT)
