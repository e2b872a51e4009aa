"""The port through which a session hands over what it decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from foreword.errors import ForewordError
from foreword.protocol.messages import LogProbabilities
from foreword.protocol.words import Rule
from orchestrator.control.adaptive import Choice
from orchestrator.core.state import Emit, Ended
from orchestrator.measure.rounds import RoundParts


@dataclass(frozen=True, slots=True)
class Decided:
    """Tokens of one Result, and how its round went."""

    emit: Emit
    gamma: int
    """Candidates that its Commit asked for; 0 under a lease."""
    late: bool
    """Whether the round went without the block that was asked for."""
    parts: RoundParts
    local: bool = False
    """Whether the target drafted with itself, or could have."""


@dataclass(frozen=True, slots=True)
class Places:
    """What a session used, for the account at its end."""

    targets: int
    drafts: int
    cached_tokens: int
    rule: Rule
    choice: Choice | None = None
    """The last γ, and why."""


class Output(Protocol):
    """Takes what a session decided, after the messages to its peers have been sent."""

    def decided(self, decided: Decided) -> int | None:
        """Take tokens; returns the output length at which a stop text ends the output, None if it goes on."""

    def scored(self, logprobs: LogProbabilities) -> None:
        """Take those of the prompt's tokens behind the first, before anything is decided."""

    def ended(self, ended: Ended, places: Places) -> None:
        """Take the end; nothing follows."""

    def failed(self, error: ForewordError) -> None:
        """Take an end without an answer; nothing follows."""


class Meters(Protocol):
    """Counts what happens, for metrics; called often, must be cheap."""

    def event(self, name: str) -> None:
        """Count a named event."""

    def decided(self, decided: Decided) -> None:
        """Count a round or plain step."""
