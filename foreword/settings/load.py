"""Settings from flags over environment over file over defaults; every error names its source in one line."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from foreword.errors import InvalidField
from foreword.settings.base import Settings
from foreword.settings.environment import given_variables
from foreword.settings.fields import Leaf, leaves, section_of

S = TypeVar("S", bound=Settings)
Values = Mapping[str, Any]
_NOTHING = object()


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


def load(
    kind: type[S],
    *,
    flags: Mapping[tuple[str, ...], object] | None = None,
    config: Path | None = None,
    files: bool = False,
) -> S:
    """Return the settings; raises InvalidField for a value that is wrong and a key that is not known.

    Of several that are wrong it is about the first; the others are its notes.
    `flags` maps paths such as ("tls", "cert") to values as given on the command line; `files` looks also at the files
    that are named, and raises what `Settings.check_files` does.
    """
    sources = [
        _Source(_nested(flags or {}), "flag"),
        _Source(_environment(kind), "environment"),
        *([_Source(read_file(config), f"file {config}")] if config is not None else []),
    ]
    merged: dict[str, Any] = {}
    for source in reversed(sources):
        _merge(kind, merged, source.values)
    _check_numbers(kind, merged, sources)
    try:
        settings = kind(**merged)
        if files:
            settings.check_files()
        return settings
    except ValidationError as error:
        raise _all_invalid(kind, error, sources) from None
    except InvalidField as error:
        raise _named(kind, error, sources) from None


def read_file(path: Path) -> Values:
    """Return the mapping in a YAML or TOML file; raises InvalidField if there is none."""
    try:
        text = path.read_text(encoding="utf-8")
        content = tomllib.loads(text) if path.suffix == ".toml" else yaml.load(text, Loader=_OnceLoader)
    except OSError as error:
        raise InvalidField("config", str(path), f"a file that can be read ({error.strerror})") from error
    except (yaml.YAMLError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidField("config", str(path), f"a YAML or TOML file ({_one_line(error)})") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise InvalidField("config", str(path), "a mapping of settings at the top of the file")
    return content


class _OnceLoader(yaml.SafeLoader):
    """Refuses a name that stands twice in a mapping, as TOML does; YAML's own loader takes the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for place, (key, _) in enumerate(node.value):
            if isinstance(key, yaml.ScalarNode) and key.value in names[:place]:
                raise yaml.MarkedYAMLError(problem=f"the name {key.value} twice", problem_mark=key.start_mark)
        return super().construct_mapping(node, deep=deep)


def _all_leaves(kind: type[Settings]) -> Iterator[Leaf]:
    return leaves(kind, str(kind.model_config.get("env_prefix", "")))


def _environment(kind: type[Settings]) -> Values:
    """Return what variables say; one that no setting has is none of ours."""
    known = {leaf.variable: leaf.path for leaf in _all_leaves(kind)}
    return _nested({known[name]: value for name, value in given_variables(known).items()})


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


def _check_numbers(kind: type[Settings], merged: Values, sources: list[_Source]) -> None:
    """Raise InvalidField for true or false in the place of a number, which pydantic takes as 1 and 0."""
    for leaf in _all_leaves(kind):
        value = _at(merged, leaf.path)
        if isinstance(value, bool) and leaf.kind in (int, float):
            raise InvalidField(leaf.name, value, leaf.wanted + _where(leaf, sources))


def _all_invalid(kind: type[Settings], error: ValidationError, sources: list[_Source]) -> InvalidField:
    """Return the error about the first value that is wrong, with a note on each of the others."""
    found = [_invalid(kind, one, sources) for one in error.errors(include_url=False)]
    for message in dict.fromkeys(one.message for one in found[1:] if one.message != found[0].message):
        found[0].add_note(message)
    return found[0]


def _invalid(kind: type[Settings], first: Mapping[str, Any], sources: list[_Source]) -> InvalidField:
    """Word a complaint of pydantic's as ours."""
    path = tuple(str(part) for part in first["loc"])
    name, where = ".".join(path), next((source.kind for source in sources if _found(source.values, path)), "settings")
    if first["type"] == "extra_forbidden":
        return InvalidField(name, first["input"], f"one of the settings {_names(kind, path)} ({where})")
    for leaf in _all_leaves(kind):
        if path[: len(leaf.path)] == leaf.path:
            seen = "a secret" if leaf.secret else _readable(first["input"])
            return InvalidField(leaf.name, seen, leaf.wanted + _where(leaf, sources))
    if within := _names(kind, (*path, "")):
        return InvalidField(name, first["input"], f"a mapping with {within} ({where})")
    return InvalidField(name, _readable(first["input"]), str(first["msg"]).lower())


def _named(kind: type[Settings], error: InvalidField, sources: list[_Source]) -> InvalidField:
    """Add the place to an error that a validator raised, and to what its notes say of others."""
    known = {leaf.name: _where(leaf, sources) for leaf in _all_leaves(kind)}
    named = InvalidField(error.field, error.seen, error.wanted + known.get(error.field, ""))
    for note in getattr(error, "__notes__", ()):
        named.add_note(note + known.get(note.partition(": got ")[0], ""))
    return named


def _where(leaf: Leaf, sources: list[_Source]) -> str:
    for source in sources:
        if _found(source.values, leaf.path):
            return f" ({source.where(leaf)})"
    return f" (flag {leaf.flag})"


def _found(values: Values, path: tuple[str, ...]) -> bool:
    return _at(values, path) is not _NOTHING


def _at(values: Values, path: tuple[str, ...]) -> Any:
    """Return the value at a path, `_NOTHING` where there is none."""
    inner: Any = values
    for name in path:
        if not isinstance(inner, Mapping) or name not in inner:
            return _NOTHING
        inner = inner[name]
    return inner


def _names(kind: type[BaseModel], path: tuple[str, ...]) -> str:
    """Return the names of settings and sections that stand where the last part of the path does."""
    depth = len(path) - 1
    return ", ".join(dict.fromkeys(leaf.path[depth] for leaf in leaves(kind) if leaf.path[:depth] == path[:depth]))


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
