"""What an orchestrator is doing at a moment, in the words of the public API."""

from __future__ import annotations

from dataclasses import dataclass

from foreword.protocol.generation import GammaChoice, Usage
from foreword.protocol.words import Rule

MOST_CHOICES = 256
"""Choices of which an orchestrator tells at once."""


@dataclass(frozen=True, slots=True)
class ChoiceActivity:
    """One choice at work."""

    request_id: str
    choice: int
    age_us: int
    """Since its call came."""
    target: str
    """Address; empty while it has none."""
    draft: str
    rule: Rule
    usage: Usage
    """What it took so far."""
    gamma: GammaChoice
    """Its newest number of candidates per block, and all that it was chosen by."""
    results_by_gamma: tuple[int, ...] = ()
    """How many Results came under each γ from 0 on; 0 are plain steps."""


@dataclass(frozen=True, slots=True)
class Activity:
    """Everything at work."""

    requests: int
    choices: tuple[ChoiceActivity, ...] = ()
    """Oldest first, at most `MOST_CHOICES`."""
