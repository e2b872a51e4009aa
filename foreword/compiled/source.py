"""Draws from compiled laws: the same numbers at the same addresses as `foreword.acceptance.source.PhiloxSource`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numba import get_num_threads

from foreword.acceptance.source import Coin, Draw, PhiloxSource
from foreword.addresses.philox import first_integers, uniforms
from foreword.compiled.law import RowLaw
from foreword.compiled.philox import place
from foreword.compiled.races import race_row, race_rows, race_some
from foreword.laws.sampling import sample_uniform


class CompiledSource:
    """Draws from counter-based random numbers; has no state."""

    def race(self, key: bytes, draws: Sequence[Draw]) -> Iterator[int]:
        """Yield the winners of exponential races, a row for every thread at a time."""
        together = int(get_num_threads())
        for first in range(0, len(draws), together):
            yield from _winners(key, draws[first : first + together])

    def choose(self, key: bytes, draws: Sequence[Draw]) -> Sequence[int]:
        """Return tokens by inverse CDF."""
        numbers = uniforms(first_integers(key, [address for address, _ in draws])).tolist()
        return [
            law.drawn_by(u) if isinstance(law, RowLaw) else sample_uniform(law, u)
            for u, (_, law) in zip(numbers, draws, strict=True)
        ]

    def below(self, key: bytes, coins: Sequence[Coin]) -> Iterator[bool]:
        """Toss addressed coins."""
        return PhiloxSource().below(key, coins)


def _winners(key: bytes, draws: Sequence[Draw]) -> Iterator[int]:
    rows = [(place(key, address), law) for address, law in draws if isinstance(law, RowLaw) and not law.taken.size]
    found = iter(_row_winners(rows))
    for address, law in draws:
        if isinstance(law, RowLaw) and not law.taken.size:
            yield next(found)
        elif law.size == 1:
            yield law.token_at(0)
        else:
            yield law.token_at(int(race_some(law.support, law.probabilities, place(key, address))))


def _row_winners(rows: Sequence[tuple[np.ndarray[tuple[int], np.dtype[np.uint64]], RowLaw]]) -> list[int]:
    if len(rows) < 2:
        return [int(race_row(law.row, law.numbers, law.sums, where)) for where, law in rows]
    winners = np.empty(len(rows), dtype=np.int64)
    race_rows(
        np.array([law.row.ctypes.data for _, law in rows], dtype=np.int64),
        np.array([law.size for _, law in rows], dtype=np.int64),
        np.array([law.numbers for _, law in rows]),
        np.array([law.sums for _, law in rows]),
        np.array([where for where, _ in rows]),
        winners,
    )
    found: list[int] = winners.tolist()
    return found
