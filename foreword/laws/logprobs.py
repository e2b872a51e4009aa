"""Log-probabilities of the target law, for tokens and for the likeliest alternatives."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from foreword.errors import InvalidField
from foreword.laws.edits import Logits
from foreword.laws.law import TargetLaw
from foreword.laws.nucleus import descending, pick
from foreword.laws.pipeline import LawRows, edited_logits
from foreword.protocol.messages import LogProbabilities

FLOOR = -9999.0
"""Stands for the log of 0, and for a token that is None: JSON and peers refuse infinities."""


def log_probabilities(
    rows: LawRows, laws: Sequence[TargetLaw], wanted: Sequence[Sequence[int | None]], *, top: int
) -> list[LogProbabilities]:
    """Return log-probabilities of each list of tokens; token i of a list is looked up in row i.

    They are those of the law that is sampled from: after temperature and truncation, what is left out has `FLOOR`. At
    temperature 0, where the law is certain, they are those of temperature 1 before truncation. Every row has exactly
    `top` alternatives (fewer only if the vocabulary has), the likeliest first, ties to the lowest id.
    """
    logits = edited_logits(rows)
    length = max((len(tokens) for tokens in wanted), default=0)
    tables = [_row_logs(logits[i], laws[i], greedy=rows.parameters.greedy) for i in range(length)]
    tops = [_top(logits[i], tables[i], top) for i in range(length)]
    return [
        LogProbabilities(
            chosen=tuple(
                FLOOR if token is None else float(table[token]) for token, table in zip(tokens, tables, strict=False)
            ),
            top=tuple(tops[: len(tokens)]) if top else (),
        )
        for tokens in wanted
    ]


def raw_log_probabilities(logits: NDArray[np.float32], tokens: Sequence[int], *, top: int) -> LogProbabilities:
    """Return log-probabilities of tokens under float32[n, V] logits, row by row: temperature 1, nothing cut or edited.

    Raises InvalidField for logits that are no numbers.
    """
    tables = [_softmax_logs(row) for row in logits]
    return LogProbabilities(
        chosen=tuple(float(table[token]) for table, token in zip(tables, tokens, strict=True)),
        top=tuple(_top(row, table, top) for row, table in zip(logits, tables, strict=True)) if top else (),
    )


def logit_margin(logits: NDArray[np.float32]) -> float:
    """Return the difference of the two largest of float32[V] logits, in nats at temperature 1."""
    if len(logits) < 2:
        return math.inf
    first, second = descending(logits, 2)
    return float(first) - float(second)


def _row_logs(logits: Logits, law: TargetLaw, *, greedy: bool) -> NDArray[np.float64]:
    # float64[V]: the log-probability of every token.
    if law.size == 1 and law.token_at(0) >= len(logits):
        return np.full(len(logits), FLOOR)  # nothing may come here
    if greedy:
        return _softmax_logs(logits)
    logs = np.full(len(logits), FLOOR)
    with np.errstate(divide="ignore"):
        logs[law.support] = np.maximum(np.log(law.probabilities), FLOOR)
    return logs


def _softmax_logs(logits: Logits) -> NDArray[np.float64]:
    largest = float(logits.max())
    if not math.isfinite(largest):
        raise InvalidField("logits", largest, "finite numbers")
    shifted = logits.astype(np.float64) - largest
    return np.maximum(shifted - math.log(float(np.exp(shifted).sum())), FLOOR)


def _top(logits: Logits, logs: NDArray[np.float64], count: int) -> tuple[tuple[int, float], ...]:
    count = min(count, len(logits))
    if not count:
        return ()
    ids = pick(logits, count, float(descending(logits, count)[-1]))
    ids = ids[np.argsort(-logits[ids], kind="stable")]
    return tuple(zip(ids.tolist(), logs[ids].tolist(), strict=True))
