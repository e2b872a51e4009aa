"""Who may import whom. Imports in functions and for type checkers count like any other."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from scripts.architecture.source import GENERATED, PACKAGES, Import, Module, Tree, Violation, within

OTHERS = {
    "foreword": (),
    "draft_service": ("foreword",),
    "target_service": ("foreword",),
    "orchestrator": ("foreword",),
    "loadtest": (
        "foreword",
        *(f"orchestrator.{part}" for part in ("control", "core", "measure", "policy", "pools", "sessions")),
        *("target_service.core", "target_service.policy_bench"),
    ),
}
"""For each package, what of the other packages it may import."""

CODEC = "foreword.wire"
"""Who may touch generated code. gRPC is called by method name with its encoders and decoders, so nobody needs stubs."""

PURE = (
    "foreword.errors",
    "foreword.values",
    "foreword.likeness",
    "foreword.protocol",
    "foreword.laws",
    "foreword.addresses",
    "foreword.acceptance",
)
"""Pure code; also every package named `core`. It computes, and knows no process, machine, moment or framework."""
IMPURE = ("foreword.addresses.philox_torch",)
"""Lies in a pure package but is not pure: the same integers on a device. Nothing pure imports it."""
PORTS = ("foreword.clock", "foreword.runner.port")
"""Interfaces that pure code may name; also modules named `ports`."""
EFFECTS = (
    *("asyncio", "concurrent", "multiprocessing", "select", "selectors", "signal", "subprocess", "threading"),
    *("fcntl", "logging", "mmap", "os", "pathlib", "shutil", "sqlite3", "tempfile"),
    *("http", "socket", "socketserver", "ssl", "urllib"),
    *("datetime", "random", "secrets", "time"),
)
"""Modules of the standard library that act, wait, or answer differently next time."""

SDK = ("foreword", "foreword.client", "foreword.errors", "foreword.protocol", "foreword.wire")
"""What users import with the base dependencies alone; everything that these load counts too."""
SDK_NEEDS = ("grpc", "google.protobuf", "numpy", "pydantic")


def violations(tree: Tree) -> Iterator[Violation]:
    """Yield every import of `tree` that breaks a rule."""
    for module in tree.modules.values():
        for found in module.imports:
            for message in (_package(module, found), _generated(module, found), _pure(tree, module, found)):
                if message:
                    yield Violation(module.path, found.line, message)
    yield from _sdk(tree)
    yield from _circles(tree)


def is_pure(name: str) -> bool:
    """Whether the module of this name has to be pure."""
    return (within(name, *PURE) or "core" in name.split(".")) and not within(name, *IMPURE)


def _package(module: Module, found: Import) -> str | None:
    package, _, _ = module.name.partition(".")
    allowed = (package, *OTHERS[package])
    if not within(found.name, *PACKAGES, "tests", "scripts") or within(found.name, *allowed):
        return None
    return f"{module.name} imports {found.name}, {package} may import {' and '.join(allowed)}"


def _generated(module: Module, found: Import) -> str | None:
    if not within(found.name, GENERATED) or within(module.name, CODEC):
        return None
    return f"{module.name} imports {found.name}, generated code is for {CODEC}"


def _pure(tree: Tree, module: Module, found: Import) -> str | None:
    if not is_pure(module.name):
        return None
    top, _, _ = found.name.partition(".")
    if top in PACKAGES:
        known = tree.resolve(found.name) or found.name
        fits = is_pure(known) or within(known, *PORTS) or known.endswith(".ports")
    else:
        fits = top == "numpy" or (top in sys.stdlib_module_names and top not in EFFECTS)
    return None if fits else f"{module.name} is pure and imports {found.name}, which is not"


def _sdk(tree: Tree) -> Iterator[Violation]:
    waiting = [name for name in tree.modules if name in SDK or within(name, *SDK[1:])]
    loaded = set(waiting)
    while waiting:
        module = tree.modules[waiting.pop()]
        for found in module.imports:
            top, _, _ = found.name.partition(".")
            if top in PACKAGES:
                new = set(_loaded_by(tree, found.name)) - loaded
                loaded |= new
                waiting.extend(new)
            elif top not in sys.stdlib_module_names and not within(found.name, *SDK_NEEDS):
                message = f"{module.name} is loaded by the client SDK and imports {found.name}"
                yield Violation(module.path, found.line, f"{message}, wanted only {', '.join(SDK_NEEDS)}")


def _loaded_by(tree: Tree, name: str) -> Iterator[str]:
    """Importing a module runs the packages around it first."""
    parts = (tree.resolve(name) or "").split(".")
    yield from (found for end in range(1, len(parts) + 1) if (found := ".".join(parts[:end])) in tree.modules)


def _circles(tree: Tree) -> Iterator[Violation]:
    """Imports go downwards only, so no module may reach itself."""
    edges = {
        name: {known for found in module.imports if (known := tree.resolve(found.name)) not in (None, name)}
        for name, module in tree.modules.items()
    }
    # Peel off what imports nothing that is left; what cannot be peeled is in a circle or above one.
    while leaves := [name for name, below in edges.items() if not below]:
        edges = {name: below.difference(leaves) for name, below in edges.items() if name not in leaves}
    while tops := [name for name in edges if not any(name in below for below in edges.values())]:
        edges = {name: below for name, below in edges.items() if name not in tops}
    if edges:
        first = min(edges)
        yield Violation(tree.modules[first].path, 1, f"these import each other in a circle: {', '.join(sorted(edges))}")
