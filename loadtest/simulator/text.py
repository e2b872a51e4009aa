"""Which of a draft's candidates are right: a number for each position of each text, the same for every γ."""

from __future__ import annotations

from random import Random

RIGHT, WRONG = 1, 2
"""All there is to a token here."""


class Text:
    """One text; a candidate is right if the number of its position is under the agreement, and all before it are."""

    def __init__(self, seed: int, number: int) -> None:
        self._chance = Random(f"{seed} {number}")
        self._numbers: list[float] = []

    def right(self, position: int, agreement: float) -> bool:
        """Whether the candidate for an output position is right after a text that is."""
        while len(self._numbers) <= position:
            self._numbers.append(self._chance.random())
        return self._numbers[position] < agreement
