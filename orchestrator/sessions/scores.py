"""Log-probabilities of a prompt as they come from a target, stretch by stretch."""

from __future__ import annotations

from foreword.protocol.messages import LogProbabilities, TargetScored


class PromptScores:
    """Puts the stretches of one reading together; a session that is read again elsewhere starts anew."""

    def __init__(self, prompt_len: int) -> None:
        self._wanted = prompt_len - 1
        self._parts: list[LogProbabilities] = []
        self._have = 0

    def restart(self) -> None:
        """Forget what has come."""
        self._parts, self._have = [], 0

    def add(self, message: TargetScored) -> None:
        """Take a stretch; one that does not follow the last leaves the whole incomplete."""
        if message.position == self._have + 1:
            self._parts.append(message.logprobs)
            self._have += len(message.logprobs.chosen)

    def whole(self) -> LogProbabilities | None:
        """Return those of all tokens behind the first, None if some are missing."""
        if self._have != self._wanted:
            return None
        return LogProbabilities(
            chosen=tuple(value for part in self._parts for value in part.chosen),
            top=tuple(row for part in self._parts for row in part.top),
        )
