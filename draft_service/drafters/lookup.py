"""Prompt lookup: what followed the text's end most often when it came before; no model, no weights.

Candidates are certain (one-hot laws), a whole block comes in one step, and where nothing matches the block goes out
empty at once, so that the target does not wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from draft_service.core.reading import Compare
from draft_service.core.writing import Drawn
from draft_service.drafters.pen import Pen
from draft_service.drafters.port import Abilities, CompareJob, ReadJob
from draft_service.drafters.rates import SESSION_SPAN, SHARED_SPAN, Guess, Rates
from foreword.errors import ForewordError, InvalidField
from foreword.lookup.automaton import SuffixAutomaton
from foreword.protocol.messages import Tokens
from foreword.protocol.words import Drafter as Kind

_LONGEST = 32
_UNCERTAIN = 256
"""Tokens at the end that may be candidates: no block has more."""
_BEFORE = (0.2, 0.5, 0.75, 0.87, 0.95, 0.98)
"""Rates beforehand, of matches of 1, 2, 4, 8, 16 and 32 tokens or more.

Measured on 281 texts of SmolLM2-135M-Instruct: chats, code, edits, extracts, stories, translations, with temperature
and without. A few blocks of a session outweigh them.
"""


@dataclass(frozen=True, slots=True)
class LookupStyle:
    """What counts as a match."""

    shortest: int = 2
    """Fewest tokens that must have come before."""
    context: int = 1 << 20
    """Most tokens of one session."""

    def validate(self) -> LookupStyle:
        """Return self, or raise InvalidField."""
        if self.shortest < 1:
            raise InvalidField("lookup_min", self.shortest, "a whole number from 1")
        return self


def shared_rates() -> Rates:
    """Return acceptance rates by length of the match for all sessions of a drafter."""
    return Rates(_BEFORE, span=SHARED_SPAN)


class Lookup:
    """Lookup for one session: the text that was read, and how well candidates did by the length of their match.

    A short match is worth little: most pairs of tokens go on in many ways. A candidate counts with the length that
    its own match has, so that a block which begins with a long match is expected to be kept for long.

    The end of the text is indexed when a guess asks for it: until then it may be a model's candidates, and to index
    one that is taken back costs time in proportion to the text where that repeats itself.
    """

    def __init__(self, style: LookupStyle, shared: Rates) -> None:
        self._index = SuffixAutomaton(style.shortest)
        self._end: list[int] = []
        """What was read and is not indexed yet."""
        self._rates = Rates(shared, span=SESSION_SPAN)
        self._guess = Guess(0)

    def __len__(self) -> int:
        return len(self._index) + len(self._end)

    def since(self, start: int) -> Tokens:
        """Return the tokens that were read from position `start` on."""
        indexed = len(self._index)
        if start >= indexed:
            return tuple(self._end[start - indexed :])
        return (*self._index.since(start), *self._end)

    def take(self, cached: int, rows: Tokens) -> None:
        """Forget what was read beyond `cached`, and read tokens."""
        self.cut(cached)
        self._end += rows
        if len(self._end) > _UNCERTAIN:
            self._read_up_to(len(self._end) - _UNCERTAIN)
        if cached < self._guess.start:
            self._guess = Guess(0)

    def cut(self, length: int) -> None:
        """Forget what was read beyond a length."""
        self._index.cut(length)
        del self._end[max(0, length - len(self._index)) :]

    def hear(self) -> None:
        """Learn how the last guess did: all that was read since is committed or assumed to be."""
        if self._guess.ids:
            self._rates.hear(self._guess, self.since(self._guess.start))
            self._guess = Guess(0)

    def guess(self, most: int, threshold: float = 0.0) -> Guess:
        """Return up to `most` candidates for what follows, and remember them for `hear`.

        The first whose survival is under the threshold is the last one.
        """
        self._read_up_to(len(self._end))
        found = self._index.continuation(most)
        kinds = tuple([min(length, _LONGEST).bit_length() - 1 for length in found.lengths])
        survivals = self._rates.survivals(kinds, threshold)
        count = len(survivals)
        self._guess = Guess(len(self._index), found.ids[:count], kinds[:count], survivals)
        return self._guess

    def compare(self, work: Compare) -> list[Guess]:
        """Read `work.rows`, guess each wanted token from what stands before it, and learn how the guesses did."""
        known = len(work.rows) - work.count + 1
        self.take(work.cached, work.rows[:known])
        self.hear()
        guesses = [self.guess(1)]
        for token in work.rows[known:]:
            self._end.append(token)
            guesses.append(self.guess(1))
        for guess, token in zip(guesses, work.wanted, strict=True):
            self._rates.hear(guess, (token,))
        self._guess = Guess(0)
        return guesses

    def _read_up_to(self, count: int) -> None:
        self._index.extend(self._end[:count])
        del self._end[:count]


class LookupDrafter:
    """Drafts from what came before, in each slot."""

    def __init__(self, style: LookupStyle) -> None:
        self._style = style.validate()
        self._shared = shared_rates()
        self._slots: dict[int, Lookup] = {}

    @property
    def abilities(self) -> Abilities:
        """What it is and can do."""
        return Abilities(Kind.LOOKUP, self._style.context, vocabulary_size=None, model=None)

    @property
    def resident_tokens(self) -> int:
        """Tokens indexed over all slots."""
        return sum(map(len, self._slots.values()))

    def open(self, slot: int, *, salt: bytes = b"") -> None:
        """Start an empty slot."""
        self._slots[slot] = Lookup(self._style, self._shared)

    def adopt(self, slot: int, tokens: Tokens) -> int:
        """Return 0: an index is of one text."""
        return 0

    def close(self, slot: int) -> None:
        """Free a slot."""
        del self._slots[slot]

    def step(self, pens: Sequence[Pen], reads: Sequence[ReadJob]) -> list[Drawn | ForewordError]:
        """Draw whole blocks, and index tokens for other sessions."""
        for job in reads:
            self._slots[job.slot].take(job.read.cached, job.read.rows)
        return [self._drawn(pen) for pen in pens]

    def compare(self, jobs: Sequence[CompareJob]) -> list[int | ForewordError]:
        """Count how often the next token was the one that lookup would have drafted."""
        return [self._agreed(job) for job in jobs]

    def _drawn(self, pen: Pen) -> Drawn:
        lookup = self._slots[pen.slot]
        lookup.take(pen.cached, pen.rows)
        lookup.hear()
        return block_of(lookup.guess(pen.left, pen.lookup_threshold))

    def _agreed(self, job: CompareJob) -> int:
        guesses = self._slots[job.slot].compare(job.compare)
        return sum(guess.ids == (token,) for guess, token in zip(guesses, job.compare.wanted, strict=True))


def block_of(guess: Guess) -> Drawn:
    """Return a guess as a whole block."""
    survival = guess.survivals[-1] if guess.ids else 1.0
    return Drawn(guess.ids, None, stop=True, confidence=survival, drafter=Kind.LOOKUP)
