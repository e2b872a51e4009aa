"""Reads a tree of packages: its modules, and what each of them imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

PACKAGES = ("foreword", "draft_service", "target_service", "orchestrator", "loadtest")
GENERATED = "foreword.v1"


@dataclass(frozen=True, slots=True)
class Import:
    """One imported name, as written: `a.b` for `import a.b`, `a.b.c` for `from a.b import c`."""

    name: str
    line: int


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule at one place."""

    path: PurePosixPath
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


@dataclass(frozen=True)
class Module:
    """One file; `path` is relative to the root, `name` is what imports call it."""

    path: PurePosixPath
    text: str

    @cached_property
    def name(self) -> str:
        """Dotted name; a package's is that of its folder."""
        parts = self.path.with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def tree(self) -> ast.Module:
        """Syntax tree."""
        return ast.parse(self.text, filename=str(self.path))

    @cached_property
    def imports(self) -> tuple[Import, ...]:
        """Every import anywhere in the file: in functions and for type checkers too."""
        return tuple(found for node in ast.walk(self.tree) for found in self._imported(node))

    def _imported(self, node: ast.AST) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = self._origin(node)
            yield from (Import(f"{origin}.{alias.name}", node.lineno) for alias in node.names)
        elif isinstance(node, ast.Call) and _called(node.func) in ("import_module", "__import__"):
            # A name that is written down can be followed, one that is made up at run time cannot.
            match node.args:
                case [ast.Constant(value=str(name)), *_]:
                    yield Import(name, node.lineno)

    def _origin(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        package = self.name.split(".") if self.path.name == "__init__.py" else self.name.split(".")[:-1]
        above = package[: len(package) - node.level + 1]
        return ".".join([*above, *([node.module] if node.module else [])])


@dataclass(frozen=True)
class Tree:
    """All modules of the packages under one root, generated ones left out."""

    modules: dict[str, Module]

    @classmethod
    def read(cls, root: Path) -> Tree:
        """Read the packages that lie under `root`."""
        paths = sorted(path for package in PACKAGES for path in (root / package).rglob("*.py"))
        modules = [Module(PurePosixPath(path.relative_to(root)), path.read_text(encoding="utf-8")) for path in paths]
        return cls({module.name: module for module in modules if not within(module.name, GENERATED)})

    def resolve(self, name: str) -> str | None:
        """Return the module of this tree that importing `name` loads, None if it is not one of them.

        The last part of `name` may be a module or something that a module holds.
        """
        for candidate in (name, name.rpartition(".")[0]):
            if candidate in self.modules:
                return candidate
        return None


def within(name: str, *packages: str) -> bool:
    """Whether `name` is one of `packages` or lies in one."""
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def _called(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
