"""Whether a model's files hold all that its config names: transformers fills what it lacks with random values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from foreword.errors import Mismatch


def check_complete(where: Path, found: Mapping[str, Any]) -> None:
    """Raise Mismatch, naming a tensor, if `found` (`output_loading_info` of transformers) says that one is missing.

    A head that is tied to the embedding is not missing.
    """
    missing: Collection[str] = found["missing_keys"]
    if missing:
        raise Mismatch(f"model {where}: {_some(missing)} missing, wanted all tensors that its config names")


def check_no_more(where: Path, found: Mapping[str, Any], *, layers: int | None) -> None:
    """Raise Mismatch, naming a tensor, if there are more than the config names.

    With `layers`, the model's first ones are wanted alone, and those of the others are left.
    """
    spare = [name for name in found["unexpected_keys"] if layers is None or not _is_beyond(name, layers)]
    if spare:
        raise Mismatch(
            f"model {where}: {_some(spare)} stored but not used, wanted what its config names and no more "
            "(#layers=K takes the first K layers alone)"
        )


def _is_beyond(name: str, layers: int) -> bool:
    """Whether a tensor is of a layer from `layers` on: the first number in its name is that of the layer."""
    number = next((int(part) for part in name.split(".") if part.isdecimal()), None)
    return number is not None and number >= layers


def _some(names: Collection[str]) -> str:
    first = min(names)
    return f"{first} is" if len(names) == 1 else f"{first} and {len(names) - 1} more are"
