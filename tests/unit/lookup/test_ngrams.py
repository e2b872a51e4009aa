"""Prompt lookup: tables, cutting back, and a naive reference."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.lookup.ngrams import NgramIndex

TEXTS = st.lists(st.integers(0, 2), max_size=40).map(tuple)


def index_of(tokens: tuple[int, ...], shortest: int = 2, longest: int = 4) -> NgramIndex:
    index = NgramIndex(shortest, longest)
    index.extend(tokens)
    return index


def naive(tokens: tuple[int, ...], most: int, shortest: int, longest: int) -> tuple[int, ...]:
    for n in range(longest, shortest - 1, -1):
        for end in range(len(tokens) - 2, n - 2, -1):
            if n <= len(tokens) and tokens[end - n + 1 : end + 1] == tokens[-n:]:
                out = list(tokens)
                for i in range(most):
                    out.append(out[end + 1 + i])
                return tuple(out[len(tokens) :])
    return ()


@pytest.mark.parametrize(
    ("tokens", "wanted"),
    [
        ((), ()),
        ((1, 2, 3, 4), ()),
        ((1, 2, 3, 9, 1, 2), (3, 9, 1, 2)),
        ((1, 2, 3, 1, 2, 4, 1, 2), (4, 1, 2, 4)),  # the newest occurrence
        ((1, 2, 3, 7, 8, 2, 3, 9, 1, 2, 3), (7, 8, 2, 3)),  # the longest match beats a newer shorter one
        ((5, 5), ()),
        ((5, 5, 5), (5, 5, 5, 5)),  # a loop goes on
        ((1, 2, 1, 2), (1, 2, 1, 2)),
    ],
)
def test_continuations(tokens: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    assert index_of(tokens).continuation(4) == wanted


@given(TEXTS, st.integers(1, 3), st.integers(0, 2), st.integers(1, 6))
def test_agrees_with_a_naive_search(tokens: tuple[int, ...], shortest: int, more: int, most: int) -> None:
    longest = shortest + more
    assert index_of(tokens, shortest, longest).continuation(most) == naive(tokens, most, shortest, longest)


@given(TEXTS, TEXTS, st.data())
def test_a_cut_leaves_what_a_fresh_index_has(
    before: tuple[int, ...], after: tuple[int, ...], data: st.DataObject
) -> None:
    length = data.draw(st.integers(0, len(before)))
    index = index_of(before)
    index.cut(length)
    index.extend(after)
    fresh = index_of(before[:length] + after)
    assert vars(index) == vars(fresh)


def test_agreement_counts_what_would_have_been_drafted() -> None:
    index = index_of((1, 2, 3, 9, 1, 2))
    assert index.agreed((3, 9, 5)) == 2
    assert len(index) == 9
