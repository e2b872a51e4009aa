"""What may come after a text, in the order in which a draft expects it; pure.

Under coupling the order is that of log q with the target's own noise, which leaves little to chance whatever the
temperature. Otherwise it is that of the draft's law, and at temperature 0 that of the logits.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from draft_service.drafters.choosing import Manner
from draft_service.drafters.plan import LIKELIEST, Plan, argmax
from foreword.laws.law import Ids, Law
from foreword.laws.sampling import match_ranking
from foreword.protocol.messages import Tokens
from foreword.values import replace

Ranking = tuple[Tokens, float]
"""Tokens in order, and by how many nats the first leads the second."""


def ranked_plan(plan: Plan) -> Plan:
    """Return the plan by whose law tokens are ranked: where the draft takes the likeliest, its law at temperature 1."""
    if plan.manner is not Manner.LIKELIEST:
        return plan
    law = replace(plan.parameters, temperature=1.0, top_k=LIKELIEST, top_p=None, min_p=None)
    return replace(plan, parameters=law)


def rank_law(plan: Plan, law: Law, key: bytes | None, position: int, *, most: int) -> Ranking:
    """Return the likeliest tokens of a draft's law at an output position, at most `most`."""
    if plan.manner is Manner.COUPLED:
        assert key is not None
        return match_ranking(law, key, position, most=most)
    best = _largest(law.probabilities, most)
    ids = tuple(law.token_at(int(index)) for index in best if law.probabilities[index] > 0.0)
    return ids, law.margin


def rank_logits(row: NDArray[np.float32], ids: Ids, *, most: int) -> Ranking | None:
    """Return the likeliest tokens after a row of logits whose columns are `ids`; None where it has no finite largest.

    Ties go to the lowest id.
    """
    if argmax(row) is None:
        return None
    best = _largest(row, max(most, 2))
    lead = float(row[best[0]] - row[best[1]]) if len(best) > 1 else math.inf
    return tuple(int(ids[column]) for column in best[:most] if row[column] > -math.inf), lead


def without(ranking: Tokens, candidate: int, *, most: int) -> Tokens:
    """Return a ranking without the candidate that something else is to come for."""
    return tuple(token for token in ranking if token != candidate)[:most]


def _largest(values: NDArray[np.float32] | NDArray[np.float64], most: int) -> NDArray[np.intp]:
    """Return the indices of the largest values in falling order, ties to the lowest index."""
    few = np.arange(len(values)) if len(values) <= most else np.sort(np.argpartition(values, -most)[-most:])
    found: NDArray[np.intp] = few[np.argsort(-values[few], kind="stable")]
    return found
