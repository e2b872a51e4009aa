"""Settings from flags over environment over file over defaults; every error names its source in one line."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_settings import EnvSettingsSource

from foreword.errors import InvalidField
from foreword.settings.base import Settings
from foreword.settings.fields import Leaf, leaves, section_of

S = TypeVar("S", bound=Settings)
Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Source:
    """Values that were given in one place; nested by section."""

    values: Values
    kind: str
    """What is said of it: flag, environment, or file with its path."""

    def where(self, leaf: Leaf) -> str:
        """Return how a message names this place."""
        if self.kind == "flag":
            return f"flag {leaf.flag}"
        if self.kind == "environment":
            return f"environment {leaf.variable}"
        return self.kind


def load(kind: type[S], *, flags: Mapping[tuple[str, ...], object] | None = None, config: Path | None = None) -> S:
    """Return the settings; raises InvalidField for the first value that is wrong, and for a key that is not known.

    `flags` maps paths such as ("tls", "cert") to values as given on the command line.
    """
    sources = [
        _Source(_nested(flags or {}), "flag"),
        _Source(EnvSettingsSource(kind)(), "environment"),
        *([_Source(read_file(config), f"file {config}")] if config is not None else []),
    ]
    merged: dict[str, Any] = {}
    for source in reversed(sources):
        _merge(kind, merged, source.values)
    try:
        return kind(**merged)
    except ValidationError as error:
        raise _invalid(kind, error, sources) from None
    except InvalidField as error:
        raise _named(kind, error, sources) from None


def read_file(path: Path) -> Values:
    """Return the mapping in a YAML or TOML file; raises InvalidField if there is none."""
    try:
        text = path.read_text(encoding="utf-8")
        content = tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text)
    except OSError as error:
        raise InvalidField("config", str(path), f"a file that can be read ({error.strerror})") from error
    except (yaml.YAMLError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidField("config", str(path), f"a YAML or TOML file ({_one_line(error)})") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise InvalidField("config", str(path), "a mapping of settings at the top of the file")
    return content


def _nested(flags: Mapping[tuple[str, ...], object]) -> Values:
    values: dict[str, Any] = {}
    for path, value in flags.items():
        inner = values
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[path[-1]] = value
    return values


def _merge(kind: type[BaseModel], under: dict[str, Any], over: Values) -> None:
    """Put the values of `over` on top: sections are merged, a setting that is a mapping itself is replaced."""
    for name, value in over.items():
        section = section_of(kind.model_fields[name]) if name in kind.model_fields else None
        if section is not None and isinstance(value, Mapping):
            under[name] = inner = dict(under[name]) if isinstance(under.get(name), Mapping) else {}
            _merge(section, inner, value)
        else:
            under[name] = value


def _invalid(kind: type[Settings], error: ValidationError, sources: list[_Source]) -> InvalidField:
    """Word pydantic's first complaint as ours."""
    first = error.errors(include_url=False)[0]
    path = tuple(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        where = next((source.kind for source in sources if _found(source.values, path)), "settings")
        known = ", ".join(_siblings(kind, path))
        return InvalidField(".".join(path), first["input"], f"one of the settings {known} ({where})")
    for leaf in leaves(kind, str(kind.model_config.get("env_prefix", ""))):
        if path[: len(leaf.path)] == leaf.path:
            return InvalidField(leaf.name, _readable(first["input"]), leaf.wanted + _where(leaf, sources))
    return InvalidField(".".join(path), _readable(first["input"]), str(first["msg"]).lower())


def _named(kind: type[Settings], error: InvalidField, sources: list[_Source]) -> InvalidField:
    """Add the place to an error that a validator raised."""
    for leaf in leaves(kind, str(kind.model_config.get("env_prefix", ""))):
        if leaf.name == error.field:
            return InvalidField(error.field, error.seen, error.wanted + _where(leaf, sources))
    return error


def _where(leaf: Leaf, sources: list[_Source]) -> str:
    for source in sources:
        if _found(source.values, leaf.path):
            return f" ({source.where(leaf)})"
    return f" (flag {leaf.flag})"


def _found(values: Values, path: tuple[str, ...]) -> bool:
    inner: Any = values
    for name in path:
        if not isinstance(inner, Mapping) or name not in inner:
            return False
        inner = inner[name]
    return True


def _siblings(kind: type[BaseModel], path: tuple[str, ...]) -> Iterator[str]:
    depth = len(path) - 1
    return iter(dict.fromkeys(leaf.path[depth] for leaf in leaves(kind) if leaf.path[:depth] == path[:depth]))


def _readable(value: object) -> object:
    """Return a number that was given as text as the number, so that messages show -1 and not '-1'."""
    if isinstance(value, str):
        for number in (int, float):
            try:
                return number(value)
            except ValueError:
                continue
    return value


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
