"""An index of n-grams over a growing token sequence that can be cut back: what prompt lookup searches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_NOWHERE = -1


class NgramIndex:
    """Finds where the end of a sequence occurred before, in constant time.

    For every n and every position it keeps where the n-gram that ends there ended before; a cut undoes the entries
    of what is cut, newest first. Adding or cutting one token costs one dictionary entry for each n.
    """

    def __init__(self, shortest: int, longest: int) -> None:
        self._sizes = tuple(range(longest, shortest - 1, -1))
        self._tokens: list[int] = []
        self._newest: dict[tuple[int, ...], int] = {}  # n-gram → where it ended last
        self._before: list[tuple[int, ...]] = []  # position → for each n, where the same n-gram ended before

    def __len__(self) -> int:
        return len(self._tokens)

    def extend(self, tokens: Iterable[int]) -> None:
        """Append tokens."""
        held, newest = self._tokens, self._newest
        for token in tokens:
            held.append(token)
            end = len(held) - 1
            before = []
            for n in self._sizes:
                if n > len(held):
                    before.append(_NOWHERE)
                    continue
                gram = tuple(held[-n:])
                before.append(newest.get(gram, _NOWHERE))
                newest[gram] = end
            self._before.append(tuple(before))

    def cut(self, length: int) -> None:
        """Forget the tokens from position `length` on."""
        held, newest = self._tokens, self._newest
        while len(held) > length:
            for n, before in zip(self._sizes, self._before.pop(), strict=True):
                if n > len(held):
                    continue
                gram = tuple(held[-n:])
                if before == _NOWHERE:
                    del newest[gram]
                else:
                    newest[gram] = before
            held.pop()

    def continuation(self, most: int) -> tuple[int, ...]:
        """Return up to `most` tokens that followed the newest earlier occurrence of the longest end that has one.

        Where that occurrence overlaps the end, the continuation repeats itself: a loop is continued as a loop.
        """
        end = self._match()
        if end == _NOWHERE:
            return ()
        found = self._tokens[end + 1 : end + 1 + most]
        period = len(self._tokens) - 1 - end
        while len(found) < most:
            found.append(found[-period])
        return tuple(found)

    def agreed(self, tokens: Sequence[int]) -> int:
        """Append tokens one by one and return how many of them were the continuation's first."""
        count = 0
        for token in tokens:
            count += self.continuation(1) == (token,)
            self.extend((token,))
        return count

    def _match(self) -> int:
        if not self._before:
            return _NOWHERE
        return next((end for end in self._before[-1] if end != _NOWHERE), _NOWHERE)
