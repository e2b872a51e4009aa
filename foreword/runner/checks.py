"""Bounds that hold before a device sees anything: one id out of range would kill every session in the process."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from foreword.errors import InvalidField
from foreword.runner.port import Memory, Rows


def check_rows(rows: Rows, *, length: int, vocabulary_size: int, longest_context: int) -> None:
    """Raise InvalidField unless `rows` fit a slot that holds `length` tokens."""
    count = len(rows.tokens)
    if count == 0:
        raise InvalidField("tokens", rows.tokens, "at least one token")
    if not 0 <= rows.need <= count:
        raise InvalidField("need", rows.need, f"a whole number from 0 to {count}, the tokens given")
    low, high = min(rows.tokens), max(rows.tokens)
    if low < 0 or high >= vocabulary_size:
        raise InvalidField("tokens", low if low < 0 else high, f"token ids from 0 to {vocabulary_size - 1}")
    if length + count > longest_context:
        raise InvalidField("length", length + count, f"at most {longest_context} tokens, the longest context")
    if not rows.temperature >= 0.0:  # also refuses NaN
        raise InvalidField("temperature", rows.temperature, "a number from 0")


def check_batch(
    batch: Sequence[Rows], length_of: Callable[[int], int], *, vocabulary_size: int, longest_context: int
) -> None:
    """Raise InvalidField unless every entry fits its slot and no slot comes twice.

    `length_of` returns the tokens that a slot holds, or raises for one that is not open.
    """
    seen: set[int] = set()
    for rows in batch:
        if rows.slot in seen:
            raise InvalidField("slot", rows.slot, "each slot once in a batch")
        seen.add(rows.slot)
        check_rows(
            rows,
            length=length_of(rows.slot),
            vocabulary_size=vocabulary_size,
            longest_context=longest_context,
        )


def check_truncation(length: int, held: int) -> None:
    """Raise InvalidField unless a slot that holds `held` tokens can be cut to `length`."""
    if not 0 <= length <= held:
        raise InvalidField("length", length, f"a whole number from 0 to {held}, the tokens held")


def unknown_slot(slot: int) -> InvalidField:
    """Return the error for a slot that is not open."""
    return InvalidField("slot", slot, "a slot that is open")


def taken_slot(slot: int) -> InvalidField:
    """Return the error for a slot that is open already."""
    return InvalidField("slot", slot, "a slot that is not in use")


def check_cache(memory: Memory, tokens: int) -> None:
    """Raise InvalidField unless two texts of so many tokens fit side by side: so much is scored to check a model."""
    wanted = 2 * -(-tokens // memory.page_size)
    if memory.pages < wanted:
        least = f"at least {wanted * memory.page_size} tokens: two texts of {tokens} are scored when a model is loaded"
        raise InvalidField("max_tokens", memory.pages * memory.page_size, least)
