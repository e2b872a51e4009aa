"""The steady part of a run: from when the last session is under way to when the first one is nearly done; pure."""

from __future__ import annotations

from dataclasses import dataclass

from foreword.errors import InvalidField


@dataclass(frozen=True, slots=True)
class Steady:
    """What the sessions did in the window, together."""

    tokens_per_s: float
    tokens: int
    rounds: int
    round_s: float
    """Mean time of a round."""


class SteadyWindow:
    """Follows the output of some sessions that run beside each other; times are seconds of one monotonic clock.

    The window opens when the last session has `first` tokens: prompts are read, leases are over, drafts at work. It
    closes when the first session has `last` tokens. A session's rate is that between its own first and last arrival
    within the window, so that nothing depends on where in a round the window opens or closes.
    """

    def __init__(self, sessions: int, *, first: int, last: int) -> None:
        assert 0 < first < last, "a window needs a beginning before its end"
        self.opened_s: float | None = None
        self.closed_s: float | None = None
        self._first, self._last = first, last
        self._waiting = sessions
        self._taken = [0] * sessions
        self._arrivals: list[list[tuple[float, int, int]]] = [[] for _ in range(sessions)]

    def add(self, session: int, at_s: float, *, tokens: int, rounds: int) -> None:
        """Take tokens that arrived together, and how many rounds they ended."""
        before = self._taken[session]
        self._taken[session] = before + tokens
        self._arrivals[session].append((at_s, tokens, rounds))
        if before < self._first <= before + tokens:
            self._waiting -= 1
            if not self._waiting and self.closed_s is None:
                self.opened_s = at_s
        if before < self._last <= before + tokens and self.closed_s is None:
            self.closed_s = at_s

    def steady(self) -> Steady:
        """Return what happened in the window; raises InvalidField if the sessions were never all in their middle."""
        if self.opened_s is None or self.closed_s is None:
            raise InvalidField("tokens", self._last, "so many that all sessions are in their middle at one time")
        rate, tokens, rounds, seconds = 0.0, 0, 0, 0.0
        for arrivals in self._arrivals:
            within = [arrival for arrival in arrivals if self.opened_s <= arrival[0] <= self.closed_s]
            if len(within) < 2:
                raise InvalidField("tokens", self._last, "so many that every session has some rounds in the window")
            took = within[-1][0] - within[0][0]
            gained = sum(arrival[1] for arrival in within[1:])
            rate += gained / took
            tokens += gained
            rounds += sum(arrival[2] for arrival in within[1:])
            seconds += took
        return Steady(rate, tokens, rounds, seconds / max(1, rounds))
