"""Finds stop texts in a stream of characters, across tokens and blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Found:
    """A stop text, and where it begins and ends in the characters that were fed."""

    text: str
    begin: int
    end: int


class StopTexts:
    """Reads characters one by one; the first stop text that is complete is found, the longest where two end together.

    Character by character, so that what is found does not depend on how the stream is cut into tokens and blocks.
    Each text has its own automaton (Knuth, Morris, Pratt 1977).
    """

    def __init__(self, texts: Sequence[str]) -> None:
        # Longest first: of two that end at the same character the one that begins earlier is found.
        self._texts = sorted({text for text in texts if text}, key=lambda text: (-len(text), text))
        self._borders = [_borders(text) for text in self._texts]
        self._states = [0] * len(self._texts)
        self._fed = 0

    @property
    def held(self) -> int:
        """How many of the last characters may be the beginning of a stop text."""
        return max(self._states, default=0)

    def feed(self, text: str) -> Found | None:
        """Read characters; return the stop text that is complete first, after which nothing more may be fed."""
        if not self._texts:
            return None
        for character in text:
            self._fed += 1
            for index, stop in enumerate(self._texts):
                state = self._advance(index, character)
                if state == len(stop):
                    return Found(stop, self._fed - len(stop), self._fed)
        return None

    def _advance(self, index: int, character: str) -> int:
        text, borders, state = self._texts[index], self._borders[index], self._states[index]
        while state and text[state] != character:
            state = borders[state - 1]
        if text[state] == character:
            state += 1
        self._states[index] = state
        return state


def _borders(text: str) -> list[int]:
    """Return for each prefix the length of its longest proper prefix that is also its suffix."""
    borders = [0] * len(text)
    length = 0
    for index in range(1, len(text)):
        while length and text[index] != text[length]:
            length = borders[length - 1]
        if text[index] == text[length]:
            length += 1
        borders[index] = length
    return borders
