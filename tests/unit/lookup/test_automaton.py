"""What prompt lookup searches: the longest end that came before, cutting back, and a naive reference."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.lookup.automaton import WALK, Continuation, SuffixAutomaton

Tokens = tuple[int, ...]
TEXTS = st.lists(st.integers(0, 2), max_size=24).map(tuple)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("extend"), st.lists(st.integers(0, 2), max_size=8).map(tuple)),
        st.tuples(st.just("cut"), st.integers(0, 30)),
    ),
    max_size=8,
)


def index_of(tokens: Tokens, shortest: int = 2, walk: int = WALK) -> SuffixAutomaton:
    index = SuffixAutomaton(shortest, walk=walk)
    index.extend(tokens)
    return index


def places(text: Tokens, stretch: Tokens) -> list[int]:
    """Return where a stretch ends in a text."""
    size = len(stretch)
    return [end for end in range(size, len(text) + 1) if text[end - size : end] == stretch]


def counted(text: Tokens, stretch: Tokens, walk: int) -> list[int]:
    """Return where a stretch ends, without the places at which `walk` longer kinds of ends were counted instead."""
    found = []
    for end in places(text, stretch):
        longer = [text[start:end] for start in range(end - len(stretch) + 1)]
        if len({len(places(text[:end], one)) for one in longer}) <= walk:
            found.append(end)
    return found


def naive(text: Tokens, most: int, shortest: int, walk: int = WALK) -> Continuation:
    """Search the whole text again for every token."""
    ids: Tokens = ()
    lengths: Tokens = ()
    for _ in range(most):
        whole = text + ids
        for size in range(len(whole) - 1, shortest - 1, -1):
            end = whole[len(whole) - size :]
            following = {text[place] for place in places(text, end) if place < len(text)}
            if following:
                counts = {token: counted(text, (*end, token), walk) for token in following}
                ids += (max(following, key=lambda token: (len(counts[token]), counts[token][-1])),)
                lengths += (size,)
                break
        else:
            break
    return Continuation(ids, lengths)


@pytest.mark.parametrize(
    ("tokens", "wanted"),
    [
        ((), ()),
        ((1, 2, 3, 4), ()),
        ((1, 2, 3, 9, 1, 2), (3, 9, 1, 2)),
        ((1, 2, 3, 1, 2, 4, 1, 2), (4, 1, 2, 4)),  # equally often: the newest
        ((1, 2, 3, 1, 2, 3, 1, 2, 4, 8, 1, 2), (3, 1, 2, 4)),  # more often
        ((1, 2, 3, 7, 8, 2, 3, 9, 1, 2, 3), (7, 8, 2, 3)),  # the longest end beats a newer shorter one
        ((*range(100), 5, 7, *range(50)), (50, 51, 52, 53)),  # however long
        ((5, 5), ()),
        ((5, 5, 5), (5, 5, 5, 5)),  # a loop goes on
        ((1, 2, 1, 2), (1, 2, 1, 2)),
    ],
)
def test_continuations(tokens: Tokens, wanted: Tokens) -> None:
    assert index_of(tokens).continuation(4).ids == wanted


def test_the_lengths_are_those_of_the_ends_that_came_before() -> None:
    assert index_of((1, 2, 3, 4, 9, 2, 3)).continuation(5) == Continuation((4, 9, 2, 3, 4), (2, 3, 4, 5, 2))


def test_tokens_are_chosen_among_the_places_where_those_before_came() -> None:
    """The newest place goes on with 7; of those that go on with 3, the most go on with 4."""
    text = (1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 5, 0, 1, 2, 7, 8, 1, 2)
    assert index_of(text).continuation(2).ids == (3, 4)


@given(TEXTS, st.integers(1, 3), st.integers(0, 6), st.sampled_from([1, 2, 3, WALK]))
def test_agrees_with_a_naive_search(tokens: Tokens, shortest: int, most: int, walk: int) -> None:
    assert index_of(tokens, shortest, walk).continuation(most) == naive(tokens, most, shortest, walk)


def follows_naive_search(index: SuffixAutomaton, steps: list[tuple[str, object]], shortest: int) -> bool:
    """Whether an index answers as a naive search does after each of some extensions and cuts."""
    text: Tokens = ()
    for name, value in steps:
        if name == "extend":
            assert isinstance(value, tuple)
            index.extend(value)
            text += value
        else:
            assert isinstance(value, int)
            index.cut(value)
            text = text[:value]
        if index.since(0) != text or index.continuation(5) != naive(text, 5, shortest):
            return False
    return True


@given(STEPS, st.integers(1, 3))
def test_any_mix_of_extending_and_cutting_agrees_with_a_naive_search(
    steps: list[tuple[str, object]], shortest: int
) -> None:
    assert follows_naive_search(SuffixAutomaton(shortest), steps, shortest)


@given(TEXTS, TEXTS, st.data())
def test_a_cut_leaves_what_a_fresh_index_has(before: Tokens, after: Tokens, data: st.DataObject) -> None:
    length = data.draw(st.integers(0, len(before)))
    index = index_of(before)
    index.cut(length)
    assert state_of(index) == state_of(index_of(before[:length]))
    index.extend(after)
    assert state_of(index) == state_of(index_of(before[:length] + after))


def state_of(index: SuffixAutomaton) -> dict[str, object]:
    return dict(vars(index))


class ForgetsALink(SuffixAutomaton):
    """A planted bug: a state that was split is not linked again to what it had been linked to."""

    def _remove(self, token: int) -> None:
        split = self._split[-1]
        super()._remove(token)
        if split >= 0:
            self._link[split] = 0


class ForgetsARedirection(SuffixAutomaton):
    """A planted bug: what led to the split-off state leads nowhere."""

    def _redirect(self, state: int, token: int, old: int, new: int) -> None:
        if new < old:  # back to the state that had been split
            del self._follow[state][token]
        else:
            super()._redirect(state, token, old, new)


class ForgetsACount(SuffixAutomaton):
    """A planted bug: what a cut takes away goes on counting."""

    def _uncount_ends(self) -> None:
        counts = list(self._count)
        super()._uncount_ends()
        for state, count in enumerate(counts):
            self._count[state] = count


class ForgetsWhereItEnded(SuffixAutomaton):
    """A planted bug: what a cut takes away stays the newest place."""

    def _uncount_ends(self) -> None:
        newest = list(self._newest)
        super()._uncount_ends()
        for state, end in enumerate(newest):
            self._newest[state] = end


@pytest.mark.parametrize("planted", [ForgetsALink, ForgetsARedirection, ForgetsACount, ForgetsWhereItEnded])
def test_an_undo_that_forgets_something_is_noticed(planted: type[SuffixAutomaton]) -> None:
    chance = random.Random(5)
    for _ in range(300):
        steps: list[tuple[str, object]] = []
        for _ in range(4):
            steps.append(("extend", tuple(chance.randrange(3) for _ in range(chance.randrange(1, 8)))))
            steps.append(("cut", chance.randrange(1, 16)))
        assert follows_naive_search(SuffixAutomaton(1), steps, 1)
        try:
            if not follows_naive_search(planted(1), steps, 1):
                return
        except (ValueError, KeyError, IndexError):  # a structure that is no longer one
            return
    pytest.fail("the planted bug was not noticed")


@given(st.lists(st.integers(0, 1), max_size=60).map(tuple))
def test_memory_is_bounded_by_the_number_of_tokens(tokens: Tokens) -> None:
    index = index_of(tokens)
    state = state_of(index)
    assert len(state["_follow"]) <= 2 * len(tokens) + 1  # type: ignore[arg-type]
    assert len(state["_before"]) <= WALK * len(tokens)  # type: ignore[arg-type]
