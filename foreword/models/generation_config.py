"""How a model's makers say that text is made, checked where it is read: a request must not fail for their mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from foreword.errors import Corrupted, InvalidField, shown
from foreword.laws.parameters import LawParameters
from foreword.models.json_file import read_json
from foreword.models.tokenizer import GenerationDefaults

_FILE = "generation_config.json"
_NUMBERS = ("temperature", "top_p", "min_p", "repetition_penalty")


def generation_defaults(folder: Path) -> GenerationDefaults:
    """Return the sampling parameters of generation_config.json.

    Raises Corrupted, naming file, field and value, for one that no request could have either; a `top_k` of 0 and less
    keeps all.
    """
    path = folder / _FILE
    config = read_json(path)
    given = {name: config[name] for name in _NUMBERS if config.get(name) is not None}
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _wrong(path, name, value, "a number")
    try:
        LawParameters(**given).validate()
    except InvalidField as error:
        raise _wrong(path, error.field, error.seen, error.wanted) from error
    top_k = config.get("top_k")
    if top_k is not None and not _is_whole(top_k):
        raise _wrong(path, "top_k", top_k, "a whole number")
    return GenerationDefaults(**given, top_k=top_k)


def end_ids(folder: Path, named: int | None, *, vocabulary_size: int) -> tuple[int, ...]:
    """Return the ids that end a text by generation_config.json and config.json, and `named` if it is one, ascending.

    Raises Corrupted, naming file and value, for what is no id below `vocabulary_size`.
    """
    ids: set[int] = set() if named is None else {named}
    for name in (_FILE, "config.json"):
        value = read_json(folder / name).get("eos_token_id")
        for one in value if isinstance(value, list) else [] if value is None else [value]:
            if not _is_whole(one) or not 0 <= one < vocabulary_size:
                wanted = f"token ids from 0 to {vocabulary_size - 1}, those of its tokenizer"
                raise _wrong(folder / name, "eos_token_id", one, wanted)
            ids.add(one)
    return tuple(sorted(ids))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _wrong(path: Path, field: str, seen: object, wanted: str) -> Corrupted:
    return Corrupted(f"{path}: {field}: got {shown(seen)}, wanted {wanted}")
