"""The half of a runner that is bookkeeping: its slots on a page pool."""

from __future__ import annotations

from foreword.protocol.messages import Tokens
from foreword.runner.pages.pool import PagePool
from foreword.runner.port import Memory


class PooledSlots:
    """All of `Runner` that has to do with slots and pages; a runner derives from it and adds its forward pass."""

    def __init__(self, pool: PagePool) -> None:
        self._pool = pool

    @property
    def resident_tokens(self) -> int:
        """Tokens held over all slots; those in shared pages count for each slot."""
        return self._pool.tokens

    @property
    def memory(self) -> Memory:
        """The cache in pages."""
        return Memory(self._pool.page_size, self._pool.pages, self._pool.free)

    def open(self, slot: int, *, salt: bytes = b"") -> None:
        """Start an empty slot, which shares beginnings with slots of the same salt only."""
        self._pool.open(slot, salt=salt)

    def close(self, slot: int) -> None:
        """Free a slot; what is committed of it can be adopted until the room is needed."""
        self._pool.close(slot)

    def length(self, slot: int) -> int:
        """Return how many tokens the slot holds."""
        return self._pool.length(slot)

    def truncate(self, slot: int, length: int) -> None:
        """Forget the tokens from position `length` on."""
        self._pool.truncate(slot, length)

    def adopt(self, slot: int, tokens: Tokens) -> int:
        """Let an empty slot begin with what is cached of `tokens`; return the length it holds then."""
        return self._pool.adopt(slot, tokens)

    def fork(self, source: int, slot: int, length: int) -> None:
        """Let an empty slot begin with the first `length` tokens of another slot of the same salt."""
        self._pool.fork(source, slot, length)

    def commit(self, slot: int, tokens: Tokens) -> None:
        """Let others adopt the full pages of the slot's first len(tokens) tokens, which are these."""
        self._pool.commit(slot, tokens)

    def pages_wanted(self, slot: int, length: int) -> int:
        """Return how many free pages it takes for the slot to hold `length` tokens."""
        return self._pool.wanted(slot, length)
