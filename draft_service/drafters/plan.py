"""What stays the same over a session's draws: the manner, the draft's law, and whether a law is needed at all."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from draft_service.drafters.choosing import Manner, Style, draft_parameters, manner
from foreword.laws.parameters import LawParameters
from foreword.protocol.messages import DraftKeys
from foreword.protocol.words import Rule
from foreword.values import replace

LIKELIEST = 512
"""Ids that a law of a draft is over at most."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How one session draws under one rule."""

    rule: Rule
    manner: Manner
    parameters: LawParameters
    """Of the draft's law."""
    unedited_from: int | None
    """Output position from which nothing but temperature and cuts comes between logits and law; None for never.

    Logits are those that a grammar has restricted.
    """

    def edits(self, position: int) -> bool:
        """Whether something else comes between logits and law at an output position."""
        return self.unedited_from is None or position < self.unedited_from


def plan_of(rule: Rule, law: LawParameters, keys: DraftKeys, style: Style) -> Plan:
    """Return the plan of a session whose target law has these parameters."""
    how = manner(rule, law, keys, style)
    parameters = draft_parameters(how, law, style)
    return Plan(rule, how, parameters, _unedited_from(parameters))


def among_likeliest(plan: Plan, width: int) -> Plan:
    """Return the plan with a law over the likeliest of `width` ids alone, where they are many.

    A draft may have any law. Behind these lies what neither it nor the target draws often, and it takes most of the
    time that drawing does.
    """
    law = plan.parameters
    if law.greedy or width <= 2 * LIKELIEST or (law.top_k is not None and law.top_k <= LIKELIEST):
        return plan
    return replace(plan, parameters=replace(law, top_k=LIKELIEST))


def _unedited_from(law: LawParameters) -> int | None:
    if law.bias or law.banned_ids or law.penalizes:
        return None
    return law.min_tokens if law.stop_ids else 0


def argmax(row: NDArray[np.float32]) -> int | None:
    """Return the id of the largest logit, ties to the lowest; None for a row that has no finite largest one."""
    best = int(row.argmax())
    return best if -math.inf < row[best] < math.inf else None  # argmax takes a NaN for the largest
