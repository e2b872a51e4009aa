"""Fields of settings: every one has a default, a unit where it is a quantity, and a line of description."""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import annotated_types
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.fields import FieldInfo

T = TypeVar("T")


class Section(BaseModel):
    """A group of settings within a service's; frozen, unknown names are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


def setting(
    default: T,
    description: str,
    *,
    unit: str = "",
    least: float | None = None,
    most: float | None = None,
    over: float | None = None,
    wanted: str = "",
    secret: bool = False,
) -> T:
    """Declare a field; `wanted` words the allowed values where type and bounds do not tell them.

    No message shows what was given for a `secret`.
    """
    extra: dict[str, Any] = {"unit": unit, "wanted": wanted, "secret": secret}
    field: T = Field(default, description=description, ge=least, le=most, gt=over, json_schema_extra=extra)
    return field


def split(value: object) -> object:
    """Return the pieces of a text that commas separate; anything else as it is."""
    if isinstance(value, str):
        return tuple(part for part in (piece.strip() for piece in value.split(",")) if part)
    return value


CommaList = Annotated[tuple[str, ...], BeforeValidator(split)]
"""Texts, given as a list or separated by commas."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """One setting that can be given: where it is and how it is declared."""

    path: tuple[str, ...]
    info: FieldInfo
    prefix: str
    """Prefix of environment variables."""

    @property
    def name(self) -> str:
        """Dotted name, as in files and messages."""
        return ".".join(self.path)

    @property
    def flag(self) -> str:
        """Command-line flag."""
        return "--" + "-".join(self.path).replace("_", "-")

    @property
    def variable(self) -> str:
        """Environment variable."""
        return (self.prefix + "__".join(self.path)).upper()

    @property
    def kind(self) -> Any:
        """Type of the value, without what makes it optional."""
        return _plain(self.info.annotation)

    @property
    def is_switch(self) -> bool:
        """Whether it is on or off."""
        return self.kind is bool

    @property
    def secret(self) -> bool:
        """Whether no message may show what was given."""
        return bool(_extra(self.info).get("secret"))

    @property
    def unit(self) -> str:
        """Unit of the value; empty for what is no quantity."""
        return str(_extra(self.info).get("unit", ""))

    @property
    def default(self) -> str:
        """Default as it would be given."""
        return shown(self.info.get_default(call_default_factory=True, validated_data={}))

    @property
    def wanted(self) -> str:
        """Allowed values in words."""
        return str(_extra(self.info).get("wanted") or "") or _wanted(self.kind, self.info)


def leaves(model: type[BaseModel], prefix: str = "", path: tuple[str, ...] = ()) -> Iterator[Leaf]:
    """Yield all settings of a model, sections unfolded, in the order of declaration."""
    for name, info in model.model_fields.items():
        section = section_of(info)
        if section is not None:
            yield from leaves(section, prefix, (*path, name))
        else:
            yield Leaf((*path, name), info, prefix)


def section_of(info: FieldInfo) -> type[BaseModel] | None:
    """Return the section that a field is, None if it is a setting."""
    kind = _plain(info.annotation)
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def shown(value: object) -> str:
    """Return a value as it would be given on a command line."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case Enum():
            return str(value.value)
        case tuple() | list():
            return ",".join(map(shown, value))
        case dict():
            return ",".join(f"{key}={shown(item)}" for key, item in value.items())
    return str(value)


def _wanted(kind: Any, info: FieldInfo) -> str:
    if kind is bool:
        return "true or false"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "one of " + ", ".join(str(member.value) for member in kind)
    if kind in (int, float):
        return ("a whole number" if kind is int else "a number") + _bounds(info)
    if kind is Path:
        return "a path"
    if get_origin(kind) is tuple:
        return "a list separated by commas"
    return "text"


def _bounds(info: FieldInfo) -> str:
    least = next((m.ge for m in info.metadata if isinstance(m, annotated_types.Ge)), None)
    most = next((m.le for m in info.metadata if isinstance(m, annotated_types.Le)), None)
    over = next((m.gt for m in info.metadata if isinstance(m, annotated_types.Gt)), None)
    low = f" from {least}" if least is not None else f" over {over}" if over is not None else ""
    if most is None:
        return low
    return (
        f"{low} to {most}" if least is not None else f"{low} and up to {most}" if over is not None else f" up to {most}"
    )


def _plain(annotation: Any) -> Any:
    """Return the type without Annotated and without None."""
    if get_origin(annotation) is Annotated:
        return _plain(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        kinds = [kind for kind in get_args(annotation) if kind is not type(None)]
        if len(kinds) == 1:
            return _plain(kinds[0])
    return annotation


def _extra(info: FieldInfo) -> dict[str, Any]:
    return info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
