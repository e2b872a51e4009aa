"""The runner's pages, as the engine counts on them."""

from __future__ import annotations

from foreword.runner.port import Runner
from target_service.core.state import Session
from target_service.engine.record import Record


class Room:
    """Says what sessions take; the runner's pool alone knows what is taken."""

    def __init__(self, runner: Runner, *, block: int, longest_length: int) -> None:
        """Count on blocks of up to `block` candidates, in sequences of up to `longest_length` tokens."""
        self._runner = runner
        self._block = block
        self._longest_length = longest_length

    @property
    def free(self) -> int:
        """Pages that sessions can be given."""
        return self._runner.memory.free

    def goal(self, session: Session) -> int:
        """Return the length at which the session has all its tokens and its next block in the cache."""
        return min(session.length + self._block + 1, self._longest_length)

    def claim(self, record: Record) -> int:
        """Return how many more pages the session needs to get there."""
        return self._runner.pages_wanted(record.slot, self.goal(record.session))
