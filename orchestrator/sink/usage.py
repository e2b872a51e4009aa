"""Counts what a choice took, from verdicts and from what was output."""

from __future__ import annotations

from collections.abc import Iterable

from foreword.protocol.generation import Usage
from foreword.protocol.words import ResultKind, TokenSource
from orchestrator.sessions.output import Decided, Places


class UsageCounter:
    """The account of one choice.

    Candidates count as accepted when they are output, so that what a stop text cuts off is not billed; the counts per
    position are those of the verifications. A block without candidates is a plain step.
    """

    def __init__(self) -> None:
        self._accepted = 0
        self._output = 0
        self._verifications = 0
        self._plain_steps = 0
        self._late = 0
        self._kept_at: list[int] = []
        self._offered_at: list[int] = []

    def decided(self, decided: Decided) -> None:
        """Count a round or plain step."""
        result, kept = decided.emit.result, decided.emit.verdict.kept
        self._late += decided.late
        if result.kind is ResultKind.PLAIN or not result.ids:
            self._plain_steps += 1
            return
        self._verifications += 1
        missing = len(result.ids) - len(self._offered_at)
        if missing > 0:
            self._offered_at += [0] * missing
            self._kept_at += [0] * missing
        for index in range(len(result.ids)):
            self._offered_at[index] += 1
            self._kept_at[index] += index < kept

    def output(self, sources: Iterable[TokenSource]) -> None:
        """Count tokens that were output."""
        for source in sources:
            self._output += 1
            self._accepted += source is not TokenSource.TARGET

    def usage(self, prompt_tokens: int, places: Places) -> Usage:
        """Return the account."""
        return Usage(
            prompt_tokens=prompt_tokens,
            output_tokens=self._output,
            cached_tokens=places.cached_tokens,
            drafted_tokens=sum(self._offered_at),
            accepted_tokens=self._accepted,
            verifications=self._verifications,
            plain_steps=self._plain_steps,
            late_blocks=self._late,
            drafts_used=places.drafts,
            targets_used=places.targets,
            accepted_per_position=tuple(self._kept_at),
            offered_per_position=tuple(self._offered_at),
        )
