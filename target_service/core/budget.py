"""How a step's budget is shared: who decodes, and who reads how much; pure.

Decoding goes first and prompts get what is left, at least a share, so that neither waits for the other for long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

PROMPT_SHARE = 8
"""One row in so many is kept for prompts while any of them wait."""
LEAST_ROWS = 16
"""Rows of prompts that a step takes whatever its time, so that they get on."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Bounds of one step, in rows."""

    step_rows: int
    """Rows in all."""
    prompt_rows: int
    """Rows of prompts."""
    step_us: float | None = None
    """How long a step may become by prompts while others decode, or twice as long as without them if that is longer;
    None for as long as it takes."""


def decoders(rows: Sequence[int], served: Sequence[int], *, most: int) -> list[int]:
    """Return who takes part, as indices in order: the least recently served first, as far as `most` rows go.

    `rows` is what each needs and `served` the number of the last step of each. Somebody always takes part. Whoever is
    left out is before the others next time, so that n sessions for whom there is room for m wait for n/m steps.
    """
    if sum(rows) <= most:
        return list(range(len(rows)))
    chosen: list[int] = []
    for index in sorted(range(len(rows)), key=lambda i: (served[i], i)):
        if not chosen or rows[index] <= most:
            chosen.append(index)
            most -= rows[index]
    return sorted(chosen)


def decode_rows(budget: Budget, *, beside_prompts: bool) -> int:
    """Return how many rows decoding may take."""
    return budget.step_rows - (_share(budget) if beside_prompts else 0)


def prompt_rows(budget: Budget, decode_rows: int, *, decoding: bool, step_us: Callable[[int], float]) -> int:
    """Return how many rows of prompts a step takes beside `decode_rows`.

    While others decode, no more than keep the step within its time by the measured curve `step_us`, but a few.
    """
    high = min(max(_share(budget), budget.step_rows - decode_rows), budget.prompt_rows)
    if budget.step_us is None or not decoding:
        return high
    limit_us = max(budget.step_us, 2 * step_us(decode_rows) if decode_rows else 0.0)
    low = min(LEAST_ROWS, high)
    while low < high:  # the curve does not fall, or hardly: halving finds where it passes the bound
        middle = (low + high + 1) // 2
        if step_us(decode_rows + middle) <= limit_us:
            low = middle
        else:
            high = middle - 1
    return low


def pieces(unread: Sequence[int], *, most: int) -> list[int]:
    """Return how many of `most` rows each prompt gets; `unread` is what each lacks, oldest first.

    The oldest gets half, the rest goes to the shortest: a short prompt does not wait for a long one, and a long one,
    once it is the oldest, for no number of short ones. What nobody else wants goes to the oldest again.
    """
    given = [0] * len(unread)
    if not unread:
        return given
    given[0] = min(unread[0], (most + 1) // 2)
    left = most - given[0]
    for index in sorted(range(1, len(unread)), key=lambda i: (unread[i], i)):
        given[index] = min(unread[index], left)
        left -= given[index]
    given[0] += min(unread[0] - given[0], left)
    return given


def _share(budget: Budget) -> int:
    return max(1, budget.step_rows // PROMPT_SHARE)
