"""Finds stop texts in a stream of characters, across tokens and blocks."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Found:
    """A stop text, and where it begins and ends in the characters that were fed."""

    text: str
    begin: int
    end: int


class StopTexts:
    """The stop texts of a request as one automaton (Aho, Corasick 1975), which all its choices share.

    A state is the longest beginning of a stop text that the characters read so far end with. Building takes time in
    proportion to the characters of all texts, reading a character does not depend on how many texts there are.
    """

    def __init__(self, texts: Sequence[str] = ()) -> None:
        self._next: list[dict[str, int]] = [{}]
        self._shorter = [0]
        self._depth = [0]
        self._ends: list[str | None] = [None]
        for text in texts:
            self._insert(text)
        self._link()

    def __bool__(self) -> bool:
        """Whether there are any."""
        return len(self._next) > 1

    def advance(self, state: int, character: str) -> int:
        """Return the state behind one more character; 0 is the first."""
        while state and character not in self._next[state]:
            state = self._shorter[state]
        return self._next[state].get(character, 0)

    def depth(self, state: int) -> int:
        """Return how many characters a state stands for."""
        return self._depth[state]

    def complete(self, state: int) -> str | None:
        """Return the longest stop text that ends here, None if none does."""
        return self._ends[state]

    def _insert(self, text: str) -> None:
        state = 0
        for character in text:
            following = self._next[state].get(character)
            if following is None:
                following = self._next[state][character] = len(self._next)
                self._next.append({})
                self._shorter.append(0)
                self._depth.append(self._depth[state] + 1)
                self._ends.append(None)
            state = following
        if state:
            self._ends[state] = text

    def _link(self) -> None:
        """Give every state the one to fall back to, shorter ones first."""
        waiting = deque(self._next[0].values())
        while waiting:
            state = waiting.popleft()
            if self._ends[state] is None:
                self._ends[state] = self._ends[self._shorter[state]]
            for character, following in self._next[state].items():
                self._shorter[following] = self.advance(self._shorter[state], character)
                waiting.append(following)


class StopSearch:
    """Reads characters one by one; the first stop text that is complete is found, the longest where two end together.

    Character by character, so that what is found does not depend on how the stream is cut into tokens and blocks.
    """

    def __init__(self, texts: StopTexts, state: int = 0) -> None:
        """Begin in the `state` in which another search of the same texts has ended."""
        self._texts = texts
        self._state = state
        self._fed = 0

    @property
    def state(self) -> int:
        """What the characters read so far end with."""
        return self._state

    @property
    def held(self) -> int:
        """How many of the last characters may be the beginning of a stop text."""
        return self._texts.depth(self._state)

    def feed(self, text: str) -> Found | None:
        """Read characters; return the stop text that is complete first, after which nothing more may be fed."""
        if not self._texts:
            return None
        for character in text:
            self._fed += 1
            self._state = self._texts.advance(self._state, character)
            stop = self._texts.complete(self._state)
            if stop is not None:
                return Found(stop, self._fed - len(stop), self._fed)
        return None
