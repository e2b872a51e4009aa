"""How many tokens the cache holds, and whether more fit."""

from __future__ import annotations


class Room:
    """Tokens held by each slot, bounded in all."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._held: dict[int, int] = {}
        self._total = 0

    @property
    def total(self) -> int:
        """Tokens held by all slots."""
        return self._total

    @property
    def free(self) -> int:
        """Tokens that still fit."""
        return self.capacity - self._total

    def held(self, slot: int) -> int:
        """Return how many tokens a slot holds."""
        return self._held.get(slot, 0)

    def fits(self, slot: int, length: int) -> bool:
        """Return whether the slot may come to hold `length` tokens."""
        return self._total - self.held(slot) + length <= self.capacity

    def set(self, slot: int, length: int) -> None:
        """Note that a slot holds `length` tokens."""
        self._total += length - self.held(slot)
        self._held[slot] = length

    def release(self, slot: int) -> None:
        """Note that a slot is freed."""
        self._total -= self._held.pop(slot, 0)
