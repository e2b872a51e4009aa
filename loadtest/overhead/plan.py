"""What `foreword bench overhead` is told."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from foreword.cli.numbers import read_numbers
from foreword.errors import InvalidField
from foreword.stack.config import StackConfig

MOST_SESSIONS = 256
FEWEST_TOKENS = 64
_SEED = 1
_VOCABULARY = 64


@dataclass(frozen=True, slots=True)
class Plan:
    """Synthetic models, and how many sessions of how many tokens run on them."""

    sessions: tuple[int, ...] = (1, 32)
    tokens: int = 320
    gamma: int = 4
    draft_ms: float = 2.0
    target_ms: float = 20.0
    agreement: float = 0.8
    repeats: int = 5

    def __post_init__(self) -> None:
        if not self.sessions or not all(1 <= count <= MOST_SESSIONS for count in self.sessions):
            raise InvalidField("sessions", self.sessions, f"whole numbers from 1 to {MOST_SESSIONS}")
        if len(set(self.sessions)) != len(self.sessions):
            raise InvalidField("sessions", self.sessions, "each number once")
        if self.tokens < max(FEWEST_TOKENS, 16 * (self.gamma + 1)):
            wanted = max(FEWEST_TOKENS, 16 * (self.gamma + 1))
            raise InvalidField("tokens", self.tokens, f"at least {wanted} for a window in their middle")
        if not 1 <= self.gamma <= 16:
            raise InvalidField("gamma", self.gamma, "a whole number from 1 to 16")
        for name in ("draft_ms", "target_ms"):
            if not 0.1 <= getattr(self, name) <= 1000.0:
                raise InvalidField(name, getattr(self, name), "milliseconds from 0.1 to 1000")
        if not 0.0 <= self.agreement <= 1.0:
            raise InvalidField("agreement", self.agreement, "a number from 0 to 1")

    @property
    def first(self) -> int:
        """Tokens of the slowest session when the window opens."""
        return self.tokens // 5

    @property
    def last(self) -> int:
        """Tokens of the fastest session when the window closes; the blocks of its last rounds are cut to its budget."""
        return self.tokens - 2 * (self.gamma + 1)

    def stack(self) -> StackConfig:
        """Return the services to start."""
        model = f"synthetic:vocab={_VOCABULARY},agreement={self.agreement},seed={_SEED},context={self.tokens + 64}"
        return StackConfig(
            target=f"{model},step_ms={self.target_ms}",
            draft=f"{model},step_ms={self.draft_ms}",
            gamma=self.gamma,
            arguments={"orchestrator": ("--no-stop-rule",)},  # blocks of one length, as the formula has them
        )

    def prompt(self, session: int, repeat: int) -> list[int]:
        """Return the prompt of a session: another text for each of them, the same ones in every run."""
        number = repeat * MOST_SESSIONS + session
        return [number // _VOCABULARY**place % _VOCABULARY for place in range(3)]

    def json(self) -> dict[str, Any]:
        """Return it as what JSON can say."""
        return {**asdict(self), "sessions": list(self.sessions), "rule": "match", "temperature": 0.0}


def read_sessions(text: str) -> tuple[int, ...]:
    """Return the numbers of sessions in a comma-separated list."""
    return read_numbers("sessions", text, "whole numbers separated by commas")
