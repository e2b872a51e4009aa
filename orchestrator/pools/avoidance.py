"""Which peers one session does not ask for a while, because they refused or lost it."""

from __future__ import annotations

import math
from collections.abc import Iterable


class Avoidance:
    """Times until which addresses are avoided, in microseconds of one clock."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def add(self, address: str, until_us: float = math.inf) -> None:
        """Avoid an address until then, for good by default."""
        self._until[address] = max(until_us, self._until.get(address, 0))

    def now(self, now_us: int) -> frozenset[str]:
        """Return the addresses that are avoided now."""
        return frozenset(address for address, until in self._until.items() if until > now_us)

    def next_us(self, addresses: Iterable[str]) -> float:
        """Return when the first of these may be asked again; infinity if never, or if there is none."""
        return min((self._until.get(address, 0) for address in addresses), default=math.inf)
