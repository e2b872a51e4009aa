"""What the exactness study covers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from foreword.errors import InvalidField
from foreword.laws.parameters import LawParameters
from foreword.stack.config import StackConfig
from loadtest.prompts import Prompt

SYNTHETIC = "synthetic:vocab=8,agreement=0.7,seed=3,context=256"
"""Eight ids, so that every law is seen in full: four that may come, and four that only the draft writes."""
SAMPLED_LAWS = {
    "T 1.5": LawParameters(temperature=1.5),
    "T 2, top-p 0.9, penalties": LawParameters(
        temperature=2.0, top_p=0.9, repetition_penalty=1.1, frequency_penalty=0.3
    ),
}
MATCH_DRAWS = ("coupled", "sampled", "argmax")


class Part(Enum):
    """One study."""

    GREEDY = "greedy"
    COUPLED = "coupled"
    SAMPLED = "sampled"


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole study."""

    prompts: tuple[Prompt, ...]
    parts: frozenset[Part] = frozenset(Part)
    target: str = "embedded"
    drafts: tuple[str, ...] = ("lookup", "embedded#layers=2")
    gammas: tuple[int, ...] = (0, 1, 4, 8)
    max_tokens: int = 128
    coupled_prompts: int = 20
    coupled_gammas: tuple[int, ...] = (2, 7)
    coupled_tokens: int = 64
    texts: int = 1000
    """Sampled texts for each rule and law."""
    side_by_side: int = 16

    def __post_init__(self) -> None:
        for name in ("max_tokens", "coupled_prompts", "coupled_tokens", "texts", "side_by_side"):
            if getattr(self, name) < 1:
                raise InvalidField(name, getattr(self, name), "a whole number from 1")

    def stack(self, draft: str) -> StackConfig:
        """Return the services with real models."""
        return StackConfig(target=self.target, draft=draft, backoff_s=0.1, longest_backoff_s=1.0)

    @property
    def coupled(self) -> tuple[Prompt, ...]:
        """Prompts of the coupled study, spread over all kinds of text."""
        step = max(1, len(self.prompts) // self.coupled_prompts)
        return self.prompts[::step][: self.coupled_prompts]

    def json(self) -> dict[str, Any]:
        """Return it as what JSON can say."""
        named = ("target", "drafts", "gammas", "max_tokens", "coupled_gammas", "coupled_tokens", "texts")
        return {
            "parts": sorted(part.value for part in self.parts),
            "prompts": len(self.prompts),
            "coupled_prompts": len(self.coupled),
            **{name: getattr(self, name) for name in (*named, "side_by_side")},
        }


def synthetic_stack(match_draw: str) -> StackConfig:
    """Return the services with synthetic models, and how the draft draws under `match`.

    A pass of the target takes so long that drafts are ready after a few plain tokens of a text, and seldom late.
    """
    return StackConfig(
        target=f"{SYNTHETIC},step_ms=15",
        draft=f"{SYNTHETIC},step_ms=0",
        arguments={"draft": ("--match-draw", match_draw)},
    )
