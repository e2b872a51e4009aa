"""The reference page of settings, written from the types so that it cannot drift from them."""

from __future__ import annotations

from collections.abc import Mapping

from foreword.settings.base import Settings
from foreword.settings.fields import Leaf, leaves

_HEADER = """# Settings

Flags win over the environment, the environment over the file given by `--config` (YAML or TOML, the names of the first
column), the file over defaults. Unknown names in a file are refused.
"""
_COLUMNS = ("setting", "flag", "environment", "default", "allowed", "what it does")


def render_reference(programs: Mapping[str, type[Settings]]) -> str:
    """Return a Markdown page with one table for each command, given by its name and settings type."""
    return "\n".join([_HEADER, *(_section(command, kind) for command, kind in programs.items())])


def _section(command: str, kind: type[Settings]) -> str:
    prefix = str(kind.model_config.get("env_prefix", ""))
    rows = [_row(_COLUMNS), _row(["---"] * len(_COLUMNS)), *(_row(_cells(leaf)) for leaf in leaves(kind, prefix))]
    return "\n".join([f"## `{command}`", "", *rows, ""])


def _cells(leaf: Leaf) -> list[str]:
    default = f"`{leaf.default}`" if leaf.default else ""
    unit = f" ({leaf.unit})" if leaf.unit else ""
    flag = f"`{leaf.flag}`, `--no-{leaf.flag[2:]}`" if leaf.is_switch else f"`{leaf.flag}`"
    return [f"`{leaf.name}`", flag, f"`{leaf.variable}`", default, leaf.wanted + unit, leaf.info.description or ""]


def _row(cells: list[str] | tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
