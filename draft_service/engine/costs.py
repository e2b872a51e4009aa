"""What a drafting step costs, measured at start-up; it warms the drafter up as well."""

from __future__ import annotations

import time
from statistics import median

from draft_service.core.reading import Read
from draft_service.core.session import advanced, opened, prefilled
from draft_service.core.state import Bounds, Session
from draft_service.drafters.pen import Pen
from draft_service.drafters.port import Drafter, ReadJob
from foreword.laws.parameters import LawParameters
from foreword.protocol.info import CostPoint
from foreword.protocol.messages import Advance, DraftKeys, DraftOpen, TargetAddress
from foreword.protocol.words import Rule
from foreword.values import replace

SESSIONS = (1, 2, 4, 8, 16)
CONTEXT = 32
"""Tokens of the sessions that are measured."""
REPEATS = 9


def measure_costs(drafter: Drafter) -> tuple[CostPoint, ...]:
    """Return the median step time for some numbers of sessions; the drafter is empty before and after."""
    context = min(CONTEXT, drafter.abilities.longest_context - 2)
    if context < 2:
        return ()
    slots = range(max(SESSIONS))
    sessions = [_session(sid, context, drafter) for sid in slots]
    for slot in slots:
        drafter.open(slot)
    tokens = sessions[0].sequence.tokens[:-1]
    drafter.step([], [ReadJob(slot, Read(0, tokens)) for slot in slots])
    times: dict[int, list[int]] = {count: [] for count in SESSIONS}
    for _ in range(REPEATS):  # size after size: a machine that is slow for a while, as others start, is so for all
        for count in SESSIONS:
            times[count].append(_timed(drafter, [Pen(slot, sessions[slot]) for slot in range(count)]))
    points = [
        CostPoint(rows=count, context=context, step_us=int(median(took)) // 1000) for count, took in times.items()
    ]
    for slot in slots:
        drafter.close(slot)
    return tuple(points)


def _timed(drafter: Drafter, pens: list[Pen]) -> int:
    began_ns = time.monotonic_ns()
    drafter.step(pens, [])
    return time.monotonic_ns() - began_ns


def _session(sid: int, context: int, drafter: Drafter) -> Session:
    """Return a session that drafts greedily after `context` tokens, all but the last of which are cached."""
    abilities = drafter.abilities
    message = DraftOpen(
        sid=sid,
        tokens=tuple(i % (abilities.vocabulary_size or context) for i in range(context)),  # a mixed drafter's model
        prompt_len=context,
        law=LawParameters(temperature=0.0),
        keys=DraftKeys(bytes(16)),
        target=TargetAddress("", "", bytes(16)),
        gamma_max=1,
    )
    session = replace(opened(message, Bounds(abilities.longest_context, 1, abilities.kind)), cached=context - 1)
    session, _ = prefilled(session)
    order = Advance(sid, round=1, base=0, tokens=(), digest=session.sequence.digest, rule=Rule.MATCH, gamma=1)
    session, _ = advanced(session, order)
    return session
