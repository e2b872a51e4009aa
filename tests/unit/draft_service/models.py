"""Runners and sessions for tests of the model drafter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from draft_service.core import session as transitions
from draft_service.core.state import Bounds, Session
from draft_service.drafters.choosing import Style
from draft_service.drafters.model import ModelDrafter
from draft_service.drafters.pen import Pen
from draft_service.drafters.port import Abilities
from foreword.laws.parameters import LawParameters
from foreword.models.synthetic import SyntheticModel
from foreword.protocol.messages import Advance, DraftKeys, Tokens
from foreword.protocol.words import Drafter, Rule
from foreword.runner.port import Logits, Rows
from foreword.testing.synthetic import Side, SyntheticRunner
from foreword.values import replace
from tests.unit.draft_service.kit import GREEDY, opening

MODEL = SyntheticModel(vocabulary=32, step_ms=0.0, agreement=0.7, context=256)
KEYS = DraftKeys(b"d" * 16, b"m" * 16)


class Padded:
    """A runner whose rows are wider than the vocabulary and largest in the padding."""

    def __init__(self, runner: SyntheticRunner) -> None:
        self._runner = runner

    def __getattr__(self, name: str) -> object:
        return getattr(self._runner, name)

    def forward(self, batch: Sequence[Rows]) -> list[Logits]:
        return [np.pad(rows, ((0, 0), (0, 8)), constant_values=99.0) for rows in self._runner.forward(batch)]


def drafter(*, side: Side = Side.DRAFT, style: Style | None = None, padded: bool = False) -> ModelDrafter:
    runner = SyntheticRunner(MODEL, side=side)
    abilities = Abilities(Drafter.SYNTHETIC, MODEL.context, MODEL.vocabulary, None)
    return ModelDrafter(Padded(runner) if padded else runner, abilities, style or Style())  # type: ignore[arg-type]


def ordered(
    tokens: Tokens,
    *,
    law: LawParameters = GREEDY,
    rule: Rule = Rule.MATCH,
    gamma: int = 4,
    cached: int = 0,
    round: int = 1,
    stop_threshold: float = 0.0,
    lookup_threshold: float = 0.0,
    output: int = 0,
    keys: DraftKeys = KEYS,
) -> Session:
    """Return a session that is drafting after `tokens`, the last `output` of which are output."""
    message = replace(opening(1, tokens, law=law, keys=keys), prompt_len=len(tokens) - output)
    session = transitions.opened(message, Bounds(MODEL.context, 16, Drafter.SYNTHETIC))
    session, _ = transitions.prefilled(replace(session, cached=cached))
    digest, base = session.sequence.digest, session.sequence.base
    order = Advance(1, round, base, (), digest, rule, gamma, stop_threshold, lookup_threshold)
    session, _ = transitions.advanced(session, order)
    return session


def written(drafter: ModelDrafter, slot: int, session: Session) -> Pen:
    """Draw a whole block and return its pen."""
    pen = Pen(slot, session)
    while True:
        (drawn,) = drafter.step([pen], [])
        assert not isinstance(drawn, Exception), drawn
        if pen.add(drawn):
            return pen
