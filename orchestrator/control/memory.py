"""What is remembered of links and drafts beyond one session, so that the next one starts well."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from foreword.protocol.words import Rule
from orchestrator.control.costs import Costs
from orchestrator.control.probing import Probing
from orchestrator.control.survival import Survival

_BANDS = (0.0, 0.35, 0.85, 1.25)
"""Temperatures up to which sessions share their rates."""
_MOST = 1024
"""Links and manners of drafting that are remembered; the oldest go."""
_FADE = 0.998
"""Of rates of all sessions together."""

Key = TypeVar("Key")
Value = TypeVar("Value")


class Link(NamedTuple):
    """Between whom a session's blocks go, and how they are drawn and accepted."""

    draft: str
    target: str
    rule: Rule
    temperature: float

    @property
    def band(self) -> int:
        """Which temperatures count as one."""
        return sum(self.temperature > bound for bound in _BANDS)


class Learned(NamedTuple):
    """What one session starts from, and teaches."""

    survival: Survival
    costs: Costs
    probing: Probing

    @classmethod
    def new(cls) -> Learned:
        """Return what a session has before it has a draft and a target: nothing."""
        return cls(Survival(), Costs(), Probing())


class Memory:
    """One for an orchestrator."""

    def __init__(self) -> None:
        self._survivals: dict[tuple[str, Rule, int], Survival] = {}
        self._costs: dict[tuple[str, str], tuple[Costs, Probing]] = {}

    def learned(self, link: Link) -> Learned:
        """Return estimates for a session on a link, which begin with what is known and add to it."""
        manner = link.draft, link.rule, link.band
        survival = self._survivals.get(manner)
        if survival is None:
            survival = Survival(fade=_FADE)
            _put(self._survivals, manner, survival)
        ends = link.draft, link.target
        both = self._costs.get(ends)
        if both is None:
            both = Costs(), Probing()
            _put(self._costs, ends, both)
        costs, probing = both
        return Learned(Survival(survival), Costs(costs), probing)


def _put(known: dict[Key, Value], key: Key, value: Value) -> None:
    if len(known) >= _MOST:
        del known[next(iter(known))]
    known[key] = value
