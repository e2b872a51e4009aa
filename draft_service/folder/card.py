"""`draft.json`: what a distilled draft was made for, from and by, and what it is worth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from foreword.errors import Corrupted, NotFound
from foreword.models.local import DRAFT_CARD

CARD = DRAFT_CARD
WEIGHTS = "draft.safetensors"

_Digest = Field(pattern=r"^[0-9a-f]{64}$")


class TargetCard(BaseModel):
    """The target that a draft was made for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str = Field(min_length=1)
    """Where it was loaded from; loading the draft takes embedding and head from there, unless told otherwise."""
    weights_digest: str = _Digest
    embedding_digest: str = _Digest
    """SHA-256 of embedding and head in float32: what the draft takes over."""
    tokenizer_digest: str = Field(min_length=1)
    vocabulary_size: int = Field(ge=1)


_Temperature = Annotated[str, Field(pattern=r"^[0-9]{1,3}(\.[0-9]{1,9})?$")]
_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
_Scale = Annotated[float, Field(strict=True, gt=0, le=10, allow_inf_nan=False)]


class MeasuredText(BaseModel):
    """What the target was to write, to measure a draft on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompts: str = Field(min_length=1)
    """Held out, for the built-in ones that training cannot ask, or the name of a file."""
    prompts_digest: str = _Digest
    tokens: int = Field(ge=1)
    """How many the target was to write; a few per cent more or less came."""
    dtype: str = Field(min_length=1)
    """Arithmetic of the target."""

    def is_same_as(self, other: MeasuredText) -> bool:
        """Whether figures on both can be compared; what a file of prompts is called does not count."""
        return self.model_copy(update={"prompts": other.prompts}) == other


class Served(BaseModel):
    """Figures on a part of a text: a temperature or a kind of task; of the others people read."""

    model_config = ConfigDict(frozen=True, extra="allow")

    served: _Share
    """Overlap of the laws that were drawn from and drafted with."""


class Measured(BaseModel):
    """What a draft was worth on one text; what people alone read is taken as it is."""

    model_config = ConfigDict(frozen=True, extra="allow")

    text: MeasuredText
    overlap: _Share
    agreement: _Share
    temperature_scales: dict[_Temperature, _Scale]
    by: dict[str, Served]


class Figures(BaseModel):
    """What a draft was worth, text by text; what people alone read is taken as it is."""

    model_config = ConfigDict(frozen=True, extra="allow")

    temperature_scales: dict[_Temperature, _Scale] = Field(default_factory=dict)
    """By temperature, the factor of it at which the draft's law overlaps the target's most: it is drafted with."""
    measured: tuple[Measured, ...] = ()
    """Of different texts, that which was measured last at the end; the scales above are of that one."""


class DraftCard(BaseModel):
    """A draft, all but its weights."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    name: str = Field(min_length=1)
    target: TargetCard
    layers: tuple[Annotated[int, Field(ge=0)], ...] = Field(min_length=1)
    """Layers of the target, from 0, that its own began as."""
    layer_types: tuple[str, ...] | None = None
    """Kinds of attention of its layers where the target has several."""
    head: int = Field(ge=1)
    """Ids that it can draw."""
    vocabulary_map_digest: str = _Digest
    weights_digest: str = _Digest
    """SHA-256 of the file of weights."""
    recipe: dict[str, Any]
    """How it was made: data, plan, versions."""
    figures: Figures = Field(default_factory=Figures)

    @model_validator(mode="after")
    def _a_kind_for_every_layer(self) -> DraftCard:
        if self.layer_types is not None and len(self.layer_types) != len(self.layers):
            raise ValueError(f"layer_types: got {len(self.layer_types)}, wanted {len(self.layers)}, one a layer")
        return self

    @property
    def fitted_scales(self) -> tuple[tuple[float, float], ...]:
        """Temperatures, ascending, and the factor of each at which the draft's law overlaps the target's most."""
        scales = self.figures.temperature_scales
        return tuple(sorted((float(temperature), scale) for temperature, scale in scales.items()))


def is_draft(folder: Path) -> bool:
    """Whether a folder holds a distilled draft."""
    return (folder / CARD).is_file()


def read_card(folder: Path) -> DraftCard:
    """Return the card of a folder; raise NotFound without one, Corrupted for one that is not as it was written."""
    path = folder / CARD
    if not path.is_file():
        raise NotFound(f"draft {folder}: no {CARD}, wanted a folder that foreword distill made")
    try:
        return DraftCard.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise Corrupted(f"{path}: {where}: {first['msg']}, wanted what foreword distill wrote") from error


def write_card(folder: Path, card: DraftCard) -> None:
    """Write the card; it appears whole or not at all."""
    partial = folder / f"{CARD}.partial"
    partial.write_text(card.model_dump_json(indent=2) + "\n", "utf-8")
    partial.replace(folder / CARD)
