"""What users write to name a model, as a value.

embedded                    the default target: SmolLM2-135M-Instruct, fetched once
./folder                    a folder in the format of Hugging Face
./model.gguf                a GGUF file
owner/name, owner/name@rev  a repository of the hub
synthetic:vocab=64,seed=1   a model without weights
SOURCE#layers=8             the first layers of a model with its final norm and head: a stand-in for a draft
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foreword.errors import InvalidField, NotFound
from foreword.models.synthetic import SyntheticModel

ALLOWED = (
    "embedded, a folder, a .gguf file, a hub id like owner/name, or synthetic:…; "
    "#layers=K behind a real one keeps its first K layers"
)
"""What a source may be, for messages."""

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_REVISION = re.compile(r"[\w./-]+")
_PARAMETERS: dict[str, tuple[str, Callable[[str], Any], str]] = {
    "vocab": ("vocabulary", int, "a whole number"),
    "step_ms": ("step_ms", float, "a number"),
    "slope_ms": ("slope_ms", float, "a number"),
    "knee": ("knee", int, "a whole number"),
    "agreement": ("agreement", float, "a number"),
    "seed": ("seed", int, "a whole number"),
    "context": ("context", int, "a whole number"),
    "eos": ("eos", float, "a number"),
    "letters": ("letters", int, "a whole number"),
}
"""Parameter of a synthetic source → field, how to read it, what is wanted."""


@dataclass(frozen=True, slots=True)
class Embedded:
    """The model that needs no hub."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder with config.json, safetensors and tokenizer.json."""

    path: Path


@dataclass(frozen=True, slots=True)
class GgufFile:
    """One GGUF file."""

    path: Path


@dataclass(frozen=True, slots=True)
class Hub:
    """A repository of the hub at a revision; None is its default branch."""

    repository: str
    revision: str | None = None


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A parsed source: `text` as written, where the model is, and how many of its layers to keep (None for all)."""

    text: str
    where: Embedded | Folder | GgufFile | Hub | SyntheticModel
    layers: int | None = None

    @property
    def synthetic(self) -> SyntheticModel | None:
        """The parameters where the model is synthetic, else None."""
        return self.where if isinstance(self.where, SyntheticModel) else None


def is_synthetic(text: str) -> bool:
    """Return whether `text` names a synthetic model, rightly or not."""
    return text.strip().partition("#")[0].partition(":")[0] == "synthetic"


def parse_source(text: str, *, field: str = "model") -> ModelSource:
    """Return what `text` names; `field` is what errors call the setting or flag that it is the value of.

    Raises InvalidField for what cannot be a source, NotFound for a path that is not there.
    """
    text = text.strip()
    name, mark, suffix = text.partition("#")
    layers = _layers(text, suffix, field=field) if mark else None
    try:
        where = _where(name, text, field=field)
    except _NoSynthetic as error:
        raise InvalidField(field, text, str(error)) from None
    if layers is not None and isinstance(where, SyntheticModel):
        raise InvalidField(field, text, "a synthetic model without #layers")
    return ModelSource(text, where, layers)


def check_words(text: str, *, field: str = "model") -> None:
    """Raise InvalidField for what names no model on any machine; whether its folder is there shows where it is read."""
    try:
        parse_source(text, field=field)
    except NotFound:
        return


def _where(name: str, text: str, *, field: str) -> Embedded | Folder | GgufFile | Hub | SyntheticModel:
    if name == "embedded":
        return Embedded()
    if is_synthetic(name):
        return _synthetic(name.partition(":")[2])
    path = Path(name).expanduser()
    if name.endswith(".gguf"):
        if not path.is_file():
            raise NotFound(f"{field}: no file {name}, wanted {ALLOWED}")
        return GgufFile(path)
    if name and path.is_dir():
        return Folder(path)
    if name.startswith(("/", ".", "~")):
        raise NotFound(f"{field}: no folder {name}, wanted {ALLOWED}")
    repository, mark, revision = name.partition("@")
    if not _HUB_ID.fullmatch(repository) or (mark and not _REVISION.fullmatch(revision)):
        raise InvalidField(field, text, ALLOWED)
    return Hub(repository, revision or None)


def _layers(text: str, suffix: str, *, field: str) -> int:
    match = re.fullmatch(r"layers=(\d{1,4})", suffix)
    if match is None or int(match[1]) < 1:
        raise InvalidField(field, text, "#layers=K with a whole number K from 1 after the mark")
    return int(match[1])


class _NoSynthetic(Exception):
    """What is wanted of a synthetic model instead."""


def _synthetic(text: str) -> SyntheticModel:
    values: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        if name not in _PARAMETERS:
            raise _NoSynthetic(f"for {part!r} NAME=VALUE with a name of {', '.join(_PARAMETERS)}")
        field, read, wanted = _PARAMETERS[name]
        if field in values:
            raise _NoSynthetic(f"{name} once")
        try:
            values[field] = read(value)
        except ValueError:
            raise _NoSynthetic(f"{wanted} as {name}") from None
    try:
        return SyntheticModel(**values).validate()
    except InvalidField as error:
        raise _NoSynthetic(f"{error.wanted} as {error.field.removeprefix('synthetic ')}") from None
