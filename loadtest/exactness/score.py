"""Whether tokens come from known conditional laws: a chi-square test that uses every token of every text; pure.

The law of a text is the product of the laws of its tokens given what stands before them. Each token is sorted into a
class by its past, and into a cell by its id or by its rank in its own law; in every class the counts of the cells, less
what the laws expect, are a sum of martingale differences with a known covariance. Its quadratic form is chi-square in
the limit (the martingale central limit theorem), and classes are uncorrelated, so their forms add up.
"""

from __future__ import annotations

import math
from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

RANKS = 4
"""Cells by rank: 0, 1, 2, and all others."""
_LEAST_EXPECTED = 5.0
"""Cells with fewer expected tokens are joined with the next."""


class ScoreTest:
    """Collects tokens; `p_value` is that of the hypothesis that each came from its law."""

    def __init__(self) -> None:
        self._surplus: dict[Hashable, Numbers] = {}
        self._expected: dict[Hashable, Numbers] = {}
        self._covariance: dict[Hashable, Numbers] = {}
        self.tokens = 0
        self.impossible = 0
        """Tokens that their law excludes: one is enough to refute."""

    def add(self, group: Hashable, cells: Numbers, cell: int) -> None:
        """Take one token: float64[cells] has the probability of each cell, and `cell` is the token's own.

        `group` and what the cells are may depend on everything before the token and no more.
        """
        if group not in self._surplus:
            self._surplus[group], self._expected[group] = np.zeros_like(cells), np.zeros_like(cells)
            self._covariance[group] = np.zeros((len(cells), len(cells)))
        self._surplus[group] -= cells
        self._surplus[group][cell] += 1.0
        self._expected[group] += cells
        self._covariance[group] += np.diag(cells) - np.outer(cells, cells)
        self.tokens += 1
        self.impossible += int(cells[cell] <= 0.0)

    @property
    def p_value(self) -> float:
        """Probability of counts so far off; 0 if an impossible token came, 1 if there is nothing to test."""
        if self.impossible:
            return 0.0
        statistic, degrees = 0.0, 0
        for group in self._surplus:
            join = _joined(self._expected[group])
            # The counts of a class add up, so one of them says nothing new.
            surplus = (join @ self._surplus[group])[1:]
            covariance = (join @ self._covariance[group] @ join.T)[1:, 1:]
            if len(surplus):
                statistic += float(surplus @ np.linalg.pinv(covariance, hermitian=True) @ surplus)
                degrees += int(np.linalg.matrix_rank(covariance, hermitian=True))
        return survival(statistic, degrees)


def survival(statistic: float, degrees: int) -> float:
    """Return P(chi-square with `degrees` > statistic) by its finite sums (Abramowitz and Stegun 26.4.4 and 26.4.5)."""
    if degrees == 0 or statistic <= 0.0:
        return 1.0
    half, odd = statistic / 2.0, degrees % 2
    terms = [
        math.exp((j - odd / 2) * math.log(half) - half - math.lgamma(j + 1 - odd / 2))
        for j in range(odd, (degrees + odd) // 2)
    ]
    return min(1.0, math.fsum(terms) + (math.erfc(math.sqrt(half)) if odd else 0.0))


def by_rank(law: Numbers, token: int) -> tuple[Numbers, int]:
    """Return the probabilities of the cells by rank under a law, float64[V], and the cell of a token."""
    order = np.argsort(-law, kind="stable")
    cells = np.append(law[order[: RANKS - 1]], law[order[RANKS - 1 :]].sum())
    return cells, min(int(np.flatnonzero(order == token)[0]), RANKS - 1)


def _joined(expected: Numbers) -> Numbers:
    """Return a 0/1 matrix [cells after, cells] that joins each cell with the next until enough is expected in each."""
    rows: list[Numbers] = []
    row, total = np.zeros_like(expected), 0.0
    for cell in range(len(expected)):
        row[cell] = 1.0
        total += float(expected[cell])
        if total >= _LEAST_EXPECTED:
            rows.append(row)
            row, total = np.zeros_like(expected), 0.0
    if row.any() and rows:
        rows[-1] = rows[-1] + row
    elif row.any():
        rows.append(row)
    return np.array(rows)
