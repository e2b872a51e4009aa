"""One slot's tokens and the pages they lie in."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from foreword.errors import InvalidField


def packed(tokens: Sequence[int]) -> array[int]:
    """Return ids as unsigned 32-bit numbers, or raise InvalidField for one that is none."""
    try:
        return array("I", tokens)
    except (OverflowError, TypeError) as error:
        wanted = "token ids from 0 to 2**32 - 1"
        raise InvalidField("tokens", next(t for t in tokens if not _is_id(t)), wanted) from error


def _is_id(token: object) -> bool:
    return isinstance(token, int) and 0 <= token < 1 << 32


@dataclass(slots=True)
class SlotPages:
    """What a slot holds.

    `table` has exactly the pages that its tokens fill, the last one in part perhaps. The first len(chain) - 1 of them
    are committed: they are in the prefix index under the digests in `chain`, which starts with the root of the salt.
    """

    chain: list[bytes]
    tokens: array[int] = field(default_factory=lambda: array("I"))
    table: list[int] = field(default_factory=list)

    @property
    def committed(self) -> int:
        """Pages at the beginning of the table that are in the prefix index."""
        return len(self.chain) - 1
