"""What turns a row of logits into the target law."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from foreword.errors import InvalidField


class Schema(Protocol):
    """A class that can say its JSON schema: a model of pydantic."""

    def model_json_schema(self) -> dict[str, Any]:
        """Return the schema."""
        ...


@dataclass(frozen=True, slots=True)
class Grammar:
    """A restriction of what may come next; `kind` is json_object, json_schema, regex, choice or lark."""

    kind: str
    source: str = ""

    @classmethod
    def json_object(cls) -> Grammar:
        """Return the grammar of any JSON object."""
        return cls("json_object")

    @classmethod
    def json_schema(cls, schema: str | Mapping[str, Any] | Schema) -> Grammar:
        """Return the grammar of the JSON that a schema describes: JSON text, a mapping, or a class of pydantic."""
        if isinstance(schema, str):
            return cls("json_schema", schema)
        if hasattr(schema, "model_json_schema"):
            schema = schema.model_json_schema()
        try:
            return cls("json_schema", json.dumps(schema, ensure_ascii=False))
        except (TypeError, ValueError) as error:
            raise InvalidField(
                "schema", schema, f"JSON text, a mapping that is JSON, or a pydantic class ({error})"
            ) from error

    @classmethod
    def regex(cls, expression: str) -> Grammar:
        """Return the grammar of all texts that a regular expression matches from end to end."""
        return cls("regex", expression)

    @classmethod
    def choice(cls, choices: Sequence[str]) -> Grammar:
        """Return the grammar of some texts, one of which comes."""
        if isinstance(choices, str) or not choices or not all(isinstance(one, str) for one in choices):
            raise InvalidField("choices", choices, "a list of at least one text")
        return cls("choice", json.dumps(list(choices), ensure_ascii=False))

    @classmethod
    def lark(cls, source: str) -> Grammar:
        """Return the grammar that a source in the Lark dialect of llguidance derives."""
        return cls("lark", source)


@dataclass(frozen=True, slots=True)
class EditedIds:
    """The ids that a law names, as arrays: made once for a session, used at each of its steps."""

    biased: NDArray[np.int64]
    """Ascending, each once."""
    bias: NDArray[np.float32]
    """What is added to the logit of each: values of one id summed."""
    banned: NDArray[np.int64]
    stops: NDArray[np.int64]


class _Memo:
    """Holds what is derived from a value, outside its fields: no copy, comparison or pickle sees it."""

    __slots__ = ("_edited_ids",)

    _edited_ids: EditedIds


@dataclass(frozen=True, slots=True)
class LawParameters(_Memo):
    """Sampling parameters of one session.

    The order of application is: bias, bans and minimum length and masks, penalties, temperature, min-p, top-k, top-p
    (that of vLLM). Temperature 0 makes the law one-hot at the largest logit, ties to the lowest id.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float = 1.0
    """Over prompt and output: positive logits are divided by it, negative ones multiplied."""
    presence_penalty: float = 0.0
    """Over the output: subtracted once."""
    frequency_penalty: float = 0.0
    """Over the output: subtracted for every occurrence."""
    bias: tuple[tuple[int, float], ...] = ()
    """Pairs (token id, value added to its logit)."""
    banned_ids: tuple[int, ...] = ()
    stop_ids: tuple[int, ...] = ()
    """Ids that end the output; they cannot come before `min_tokens` are out."""
    min_tokens: int = 0
    grammar: Grammar | None = field(default=None)

    @property
    def greedy(self) -> bool:
        """Whether the law is one-hot."""
        return self.temperature == 0.0

    @property
    def penalizes(self) -> bool:
        """Whether the law at a position depends on which tokens stand before it, beyond the logits."""
        return self.repetition_penalty != 1.0 or self.presence_penalty != 0.0 or self.frequency_penalty != 0.0

    def fault(self, wanted: str) -> InvalidField:
        """Return the error of a law that lets no token come: in the name of the grammar, of the bans without one."""
        if self.grammar is not None:
            return InvalidField("law.grammar", self.grammar.kind, wanted)
        return InvalidField("law.banned_ids", f"{len(self.banned_ids)} ids", wanted)

    @property
    def edited_ids(self) -> EditedIds:
        """The ids of bias, bans and stops as arrays; made when they are first asked for."""
        try:
            return self._edited_ids
        except AttributeError:
            made = _edited_ids(self)
            object.__setattr__(self, "_edited_ids", made)
            return made

    def validate(self, vocabulary_size: int | None = None) -> LawParameters:
        """Return self, or raise InvalidField for the first value that is out of its range."""
        _in_range("temperature", self.temperature, 0.0, 100.0, "a number from 0 to 100")
        if self.top_k is not None and self.top_k < 1:
            raise InvalidField("top_k", self.top_k, "a whole number from 1, or nothing to keep all")
        if self.top_p is not None and not 0.0 < self.top_p <= 1.0:
            raise InvalidField("top_p", self.top_p, "a number over 0 and up to 1")
        if self.min_p is not None:
            _in_range("min_p", self.min_p, 0.0, 1.0, "a number from 0 to 1")
        # What is far smaller or larger would take logits out of single precision.
        _in_range("repetition_penalty", self.repetition_penalty, 0.01, 100.0, "a number from 0.01 to 100")
        _in_range("presence_penalty", self.presence_penalty, -100.0, 100.0, "a number from -100 to 100")
        _in_range("frequency_penalty", self.frequency_penalty, -100.0, 100.0, "a number from -100 to 100")
        for token, value in self.bias:
            if not -1e9 <= value <= 1e9:  # also refuses NaN
                raise InvalidField(f"logit_bias[{token}]", value, "a finite number")
        if self.min_tokens < 0:
            raise InvalidField("min_tokens", self.min_tokens, "a whole number from 0")
        if vocabulary_size is not None:
            self._check_ids(vocabulary_size)
        return self

    def _check_ids(self, vocabulary_size: int) -> None:
        named = (
            ("logit_bias", [t for t, _ in self.bias]),
            ("banned_ids", self.banned_ids),
            ("stop_ids", self.stop_ids),
        )
        for name, ids in named:
            for token in ids:
                if not 0 <= token < vocabulary_size:
                    raise InvalidField(name, token, f"token ids from 0 to {vocabulary_size - 1}")
        barred = self.banned_ids + (self.stop_ids if self.min_tokens else ())
        if len(barred) >= vocabulary_size and len(set(barred)) == vocabulary_size:
            wanted = "a token that may come: banned ids and, up to min_tokens, stop ids are all ids there are"
            raise InvalidField("banned_ids", f"{len(self.banned_ids)} ids", wanted)


def _in_range(name: str, value: float, low: float, high: float, wanted: str) -> None:
    if not low <= value <= high:  # also refuses NaN
        raise InvalidField(name, value, wanted)


def _edited_ids(law: LawParameters) -> EditedIds:
    ids = np.array([token for token, _ in law.bias], dtype=np.int64)
    biased, place = np.unique(ids, return_inverse=True)
    summed = np.bincount(place, [value for _, value in law.bias], minlength=len(biased))
    banned, stops = (np.array(tokens, dtype=np.int64) for tokens in (law.banned_ids, law.stop_ids))
    return EditedIds(biased, summed.astype(np.float32), banned, stops)
