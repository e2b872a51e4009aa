"""A suffix automaton over a growing token sequence that can be cut back: what prompt lookup searches.

A state stands for the stretches of the text that end at the same places; its suffix link leads to the longest shorter
ones that end at more places. The link of the whole text's state is therefore the longest end of the text that came
before (Blumer et al., "The smallest automaton recognizing the subwords of a text", 1985).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass

_NONE = -1
_ROOT = 0
WALK = 16
"""Most states that are counted for one token: a text that repeats one token has as many as it has tokens."""


@dataclass(frozen=True, slots=True)
class Continuation:
    """What followed the end of a text when it came before."""

    ids: tuple[int, ...] = ()
    lengths: tuple[int, ...] = ()
    """For each id how many tokens before it, those that continue the text included, had been followed by it before."""


class SuffixAutomaton:
    """Finds the longest end of a sequence that came before, and what followed it most often.

    Appending is amortized constant time beside the counting of up to `walk` states, and a cut costs what the tokens
    cost that it takes away. There are at most two states a token, hence a known bound of memory.
    """

    def __init__(self, shortest: int, *, walk: int = WALK) -> None:
        self._shortest = shortest
        self._walk = walk
        self._tokens: list[int] = []
        self._follow: list[dict[int, int]] = [{}]  # state → next token → state
        self._length = array("i", [0])  # state → length of its longest stretch
        self._link = array("i", [_NONE])
        self._count = array("i", [0])  # state → how often it came
        self._newest = array("i", [_NONE])  # state → where it ended last
        self._whole = array("i", [_ROOT])  # length → state of the text of that length
        # What a cut needs beside the structure itself: for each token the state that was split for it, and for each
        # state that it counted where that had ended before.
        self._split = array("i")
        self._before = array("i")

    def __len__(self) -> int:
        return len(self._tokens)

    def since(self, start: int) -> tuple[int, ...]:
        """Return the tokens from position `start` on."""
        return tuple(self._tokens[start:])

    def extend(self, tokens: Iterable[int]) -> None:
        """Append tokens."""
        for token in tokens:
            self._append(token)
            self._tokens.append(token)
            self._count_ends()

    def cut(self, length: int) -> None:
        """Forget the tokens from position `length` on, newest first."""
        while len(self._tokens) > length:
            self._uncount_ends()
            self._remove(self._tokens.pop())

    def continuation(self, most: int) -> Continuation:
        """Return up to `most` tokens: each the one that most often followed the longest end of all before it.

        Ends shorter than `shortest` do not count; between equally frequent tokens the newest wins. A loop goes on as
        a loop.

        Each token is chosen among the places where all chosen before it came, too: copying one place whole would go on
        with it even where the others agree on another token. It matters little: a long end came only once as a rule,
        and then both are the same.
        """
        follow, length, count, newest = self._follow, self._length, self._count, self._newest
        whole = self._whole[-1]
        state = whole
        ids: list[int] = []
        lengths: list[int] = []
        size = 0
        while len(ids) < most:
            if state == whole:  # nothing ever followed it
                state = self._link[state]
                size = length[state] if state != _NONE else 0
            if size < self._shortest:
                break
            following = follow[state]
            if len(following) == 1:
                ((token, state),) = following.items()
            else:
                _, _, token, state = max((count[end], newest[end], token, end) for token, end in following.items())
            ids.append(token)
            lengths.append(size)
            size += 1
        return Continuation(tuple(ids), tuple(lengths))

    def _append(self, token: int) -> None:
        follow, link, length = self._follow, self._link, self._length
        state = self._whole[-1]
        new = self._add({}, length[state] + 1)
        while state != _NONE and token not in follow[state]:
            follow[state][token] = new
            state = link[state]
        split = _NONE
        if state == _NONE:
            link[new] = _ROOT
        else:
            link[new] = found = follow[state][token]
            if length[found] != length[state] + 1:  # only its shorter stretches end here too: they become a state
                split = found
                short = self._add(follow[found].copy(), length[state] + 1)
                link[short], self._count[short], self._newest[short] = (
                    link[found],
                    self._count[found],
                    self._newest[found],
                )
                link[found] = link[new] = short
                self._redirect(state, token, found, short)
        self._split.append(split)
        self._whole.append(new)

    def _remove(self, token: int) -> None:
        """Undo `_append`: the same walk over the same links meets what was added."""
        follow, link = self._follow, self._link
        new, split = self._whole.pop(), self._split.pop()
        short = link[new]
        if split != _NONE:
            link[split] = link[short]
        state = self._whole[-1]
        while state != _NONE and follow[state].get(token) == new:
            del follow[state][token]
            state = link[state]
        if split != _NONE:
            self._redirect(state, token, short, split)
            self._drop()
        self._drop()

    def _redirect(self, state: int, token: int, old: int, new: int) -> None:
        """Lead `token` to another state from a state and those on its links, as far as it led to `old`."""
        follow, link = self._follow, self._link
        while state != _NONE and follow[state].get(token) == old:
            follow[state][token] = new
            state = link[state]

    def _add(self, follow: dict[int, int], length: int) -> int:
        self._follow.append(follow)
        self._length.append(length)
        self._link.append(_NONE)
        self._count.append(0)
        self._newest.append(_NONE)
        return len(self._follow) - 1

    def _drop(self) -> None:
        for column in (self._follow, self._length, self._link, self._count, self._newest):
            column.pop()

    def _ends(self) -> list[int]:
        """Return the states whose stretches end the text and are long enough to be chosen by, the longest first."""
        link, length, shortest = self._link, self._length, self._shortest
        states: list[int] = []
        state = self._whole[-1]
        while length[state] > shortest and len(states) < self._walk:
            states.append(state)
            state = link[state]
        return states

    def _count_ends(self) -> None:
        """Count what `_ends` names; spelled out, since it runs for every token."""
        count, newest, length, link = self._count, self._newest, self._length, self._link
        shortest, before, end = self._shortest, self._before, len(self._tokens)
        state, left = self._whole[-1], self._walk
        while length[state] > shortest and left:
            before.append(newest[state])
            newest[state] = end
            count[state] += 1
            state = link[state]
            left -= 1

    def _uncount_ends(self) -> None:
        for state in reversed(self._ends()):
            self._newest[state] = self._before.pop()
            self._count[state] -= 1
