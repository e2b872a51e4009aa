"""Into how many ranks a model can be cut: every rank gets as many query heads and key/value heads as any other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd
from typing import Any

from foreword.errors import InvalidField

FIELD = "tensor_parallel_size"


@dataclass(frozen=True, slots=True)
class Heads:
    """Heads of every layer of a model."""

    query: int
    key_value: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of ranks that divide both."""
        most = gcd(self.query, self.key_value)
        return tuple(size for size in range(1, most + 1) if most % size == 0)


def heads_of(config: Mapping[str, Any]) -> Heads | None:
    """Return the heads that a model's config names, its text part where it has several; None where it names none."""
    text = config.get("text_config")
    named = text if isinstance(text, Mapping) else config
    query = named.get("num_attention_heads")
    if not isinstance(query, int):
        return None
    key_value = named.get("num_key_value_heads")
    return Heads(query, key_value if isinstance(key_value, int) else query)


def check_size(size: int, heads: Heads) -> None:
    """Raise InvalidField, with the sizes that work, unless `size` ranks get equal shares of the heads."""
    if size not in heads.sizes:
        wanted = (
            f"one of {', '.join(map(str, heads.sizes))}, which divide the model's {heads.query} query heads and "
            f"{heads.key_value} key/value heads"
        )
        raise InvalidField(FIELD, size, wanted)
