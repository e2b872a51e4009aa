"""Which beginnings of texts each target has lately been sent, so that a text goes where its beginning is cached.

A beginning is known by its digest alone. Beginnings end at fixed places, so that those of two texts can be compared:
every 64 tokens at first, and later every sixteenth of the length, which is as exact as routing needs; a prompt of
100,000 tokens has 99 of them. What a target still has in its cache it alone knows (it says so in Opened); this is a
guess, and a wrong one costs a prefill.
"""

from __future__ import annotations

import array
import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from foreword.protocol.messages import Tokens

BLOCK = 64
"""Tokens between the first places; shorter beginnings are not worth a detour."""
GROWTH = 16
"""Later places are this part of the length apart."""
ENTRIES = 4_096
"""Beginnings remembered for each instance, the latest: some hundred conversations; about half a megabyte."""
DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class Beginning:
    """The first `length` tokens of a text, under one cache salt."""

    length: int
    digest: bytes


class Beginnings:
    """All beginnings of one text, which may grow; every token is hashed once."""

    def __init__(self, salt: bytes = b"") -> None:
        # The length in front, or a salt could look like another one followed by tokens.
        self._hash = hashlib.blake2b(len(salt).to_bytes(4, "big") + salt, digest_size=DIGEST_BYTES)
        self._places = places()
        self._next = next(self._places)
        self._read = 0
        self._known: list[Beginning] = []

    def of(self, tokens: Tokens) -> Sequence[Beginning]:
        """Return the beginnings of the text, the shortest first; `tokens` goes on where it stood last time."""
        while self._next <= len(tokens):
            self._hash.update(array.array("I", tokens[self._read : self._next]).tobytes())
            self._known.append(Beginning(self._next, self._hash.digest()))
            self._read, self._next = self._next, next(self._places)
        return self._known


def places() -> Iterator[int]:
    """Yield the lengths at which beginnings end: multiples of BLOCK, ever farther apart."""
    length = 0
    while True:
        length += max(BLOCK, length // GROWTH // BLOCK * BLOCK)
        yield length


class PrefixMemory:
    """What each instance has been sent; the oldest is forgotten first, as in the caches there."""

    def __init__(self, entries: int = ENTRIES) -> None:
        self._entries = entries
        self._sent: dict[str, OrderedDict[bytes, None]] = {}

    def sent(self, instance: str, beginnings: Sequence[Beginning]) -> None:
        """Take note that an instance reads a text, or holds it at its end."""
        known = self._sent.setdefault(instance, OrderedDict())
        for beginning in reversed(beginnings):  # the shortest is the latest then, and goes last
            known[beginning.digest] = None
            known.move_to_end(beginning.digest)
        while len(known) > self._entries:
            known.popitem(last=False)

    def matched(self, instance: str, beginnings: Sequence[Beginning]) -> int:
        """Return how many tokens of the text the instance has been sent before, as far as is remembered."""
        known = self._sent.get(instance)
        if not known:
            return 0
        return next((each.length for each in reversed(beginnings) if each.digest in known), 0)

    def forget(self, instance: str) -> None:
        """Forget an instance that is gone: another process has another cache."""
        self._sent.pop(instance, None)
