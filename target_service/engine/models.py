"""Interim: synthetic models only, until foreword.models parses sources."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from pathlib import Path

from foreword.errors import InvalidField
from foreword.models.synthetic import SyntheticModel
from foreword.protocol.messages import ModelInfo
from foreword.runner.port import Runner
from foreword.testing.synthetic import Side, SyntheticRunner

_DEFAULT_TOKENS = 1 << 20


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Which model, and how it is held."""

    source: str
    name: str
    dtype: str
    cache: Path | None
    max_tokens: int | None
    threads: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """A runner and what it runs."""

    runner: Runner
    info: ModelInfo
    max_tokens: int


def load(settings: ModelSettings) -> Loaded:
    """Return the runner of a model."""
    kind, _, rest = settings.source.partition(":")
    if kind != "synthetic":
        raise InvalidField("model", settings.source, "synthetic:…")
    types = {f.name: f.type for f in fields(SyntheticModel)}
    values: dict[str, float | int] = {}
    for pair in filter(None, rest.split(",")):
        name, _, value = pair.partition("=")
        name = {"vocab": "vocabulary"}.get(name, name)
        values[name] = int(value) if types[name] == "int" else float(value)
    model = SyntheticModel(**values).validate()  # type: ignore[arg-type]
    info = ModelInfo(
        name=settings.name or "synthetic",
        source=settings.source,
        weights_digest=hashlib.sha256(repr(model).encode()).hexdigest(),
        tokenizer_digest=hashlib.sha256(f"synthetic {model.vocabulary}".encode()).hexdigest(),
        vocabulary_size=model.vocabulary,
        longest_context=model.context,
        dtype="float32",
        eos_ids=() if model.eos_id is None else (model.eos_id,),
    )
    return Loaded(SyntheticRunner(model, side=Side.TARGET), info, settings.max_tokens or _DEFAULT_TOKENS)
