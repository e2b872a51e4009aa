"""The page pool, case by case."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from foreword.errors import Full, InvalidField
from foreword.runner.pages.pool import PagePool

TEXT = tuple(range(100, 120))


def pool_of(pages: int = 20, page_size: int = 4) -> PagePool:
    return PagePool(pages, page_size)


def append(pool: PagePool, slot: int, tokens: tuple[int, ...]) -> list[tuple[int, int]]:
    with pool.reserve([(slot, tokens)]) as reserved:
        return reserved.copies


def filled(pool: PagePool, slot: int, tokens: tuple[int, ...] = TEXT, *, committed: int | None = None) -> list[int]:
    """Open a slot, fill it, commit and return its pages."""
    pool.open(slot)
    append(pool, slot, tokens)
    pool.commit(slot, tokens[: len(tokens) if committed is None else committed])
    pool.check_integrity()
    return list(pool.table(slot))


def test_pages_are_taken_as_tokens_come_and_given_back():
    pool = pool_of()
    pool.open(1)
    assert pool.wanted(1, 5) == 2
    append(pool, 1, TEXT[:5])
    assert (pool.wanted(1, 8), pool.wanted(1, 9), pool.wanted(1, 3)) == (0, 1, 0)
    assert (pool.length(1), len(pool.table(1)), pool.free, pool.tokens) == (5, 2, 18, 5)
    pool.truncate(1, 4)
    assert (len(pool.table(1)), pool.free) == (1, 19)
    pool.close(1)
    assert (pool.free, pool.cached) == (20, 0)


def test_what_is_committed_outlives_its_slot():
    pool = pool_of()
    pages = filled(pool, 1)
    pool.close(1)
    assert (pool.free, pool.cached) == (20, 5)
    pool.open(2)
    assert pool.adopt(2, (*TEXT, 7)) == 20
    assert (list(pool.table(2)), pool.free) == (pages, 15)
    assert append(pool, 2, (7,)) == []
    pool.check_integrity()


@pytest.mark.parametrize(("length", "adopted"), [(0, 0), (1, 0), (4, 0), (5, 4), (8, 4), (9, 8), (20, 16), (21, 20)])
def test_the_last_token_is_left_to_be_computed(length, adopted):
    pool = pool_of()
    filled(pool, 1)
    pool.open(2)
    assert pool.adopt(2, (*TEXT, 7)[:length]) == adopted


def test_adoption_ends_where_texts_part():
    pool = pool_of()
    pages = filled(pool, 1)
    pool.open(2)
    assert pool.adopt(2, (*TEXT[:10], 7, *TEXT[11:])) == 8
    assert list(pool.table(2)) == pages[:2]
    pool.open(3)
    assert pool.adopt(3, TEXT[4:]) == 0  # the same tokens elsewhere


def test_salts_do_not_share():
    pool = pool_of()
    pool.open(1, salt=b"a")
    append(pool, 1, TEXT)
    pool.commit(1, TEXT)
    for slot, salt, adopted in ((2, b"", 0), (3, b"b", 0), (4, b"a", 16)):
        pool.open(slot, salt=salt)
        assert pool.adopt(slot, TEXT) == adopted


def test_only_what_is_committed_is_adopted():
    pool = pool_of()
    filled(pool, 1, committed=11)
    assert pool.cached == 2
    pool.open(2)
    assert pool.adopt(2, TEXT) == 8
    pool.commit(1, (*TEXT, 1, 2, 3, 4, 5))  # more than the slot holds: what it holds counts
    assert pool.cached == 5


def test_a_candidate_that_was_rejected_never_gets_in():
    pool = pool_of()
    filled(pool, 1, TEXT[:6])
    append(pool, 1, (1, 2))
    pool.truncate(1, 7)  # the first is kept, and another token comes after it
    pool.commit(1, (*TEXT[:6], 1, 9))
    assert pool.cached == 1
    append(pool, 1, (9, 8))
    pool.commit(1, (*TEXT[:6], 1, 9))
    pool.open(2)
    assert pool.adopt(2, (*TEXT[:6], 1, 2, 0)) == 4
    pool.truncate(2, 0)
    assert pool.adopt(2, (*TEXT[:6], 1, 9, 0)) == 8


def test_a_commit_before_the_rollback_is_noticed():
    pool = pool_of()
    filled(pool, 1, TEXT[:6])
    append(pool, 1, (1, 2, 3))
    with pytest.raises(InvalidField, match=r"tokens: .* from position 4 on.*, wanted what slot 1 holds there"):
        pool.commit(1, (*TEXT[:6], 1, 9))
    assert pool.cached == 1
    pool.check_integrity()


def test_equal_prompts_end_up_in_the_same_pages():
    pool = pool_of()
    pool.open(1)
    pool.open(2)
    with pool.reserve([(1, TEXT[:10]), (2, TEXT[:10])]):
        pass
    assert pool.free == 14
    for slot in (1, 2):
        pool.commit(slot, TEXT[:10])
    assert pool.table(1)[:2] == pool.table(2)[:2]
    assert pool.table(1)[2] != pool.table(2)[2]
    assert pool.free == 16
    pool.check_integrity()


def test_a_slot_that_writes_into_a_shared_page_gets_a_copy():
    pool = pool_of()
    pages = filled(pool, 1)
    pool.open(2)
    pool.adopt(2, (*TEXT, 7))
    pool.truncate(2, 18)
    assert pool.wanted(2, 19) == 1
    ((source, copy),) = append(pool, 2, (5,))
    assert (source, copy) == (pages[4], pool.table(2)[4])
    assert list(pool.table(2)) == [*pages[:4], copy]
    assert list(pool.table(1)) == pages
    pool.check_integrity()


def test_all_who_write_into_a_shared_page_at_once_get_copies():
    pool = pool_of()
    pages = filled(pool, 1)
    for slot in (2, 3):
        pool.open(slot)
        pool.adopt(slot, (*TEXT, 7))
    pool.close(1)
    for slot in (2, 3):
        pool.truncate(slot, 17)
    with pool.reserve([(2, (5,)), (3, (6,))]) as reserved:
        assert [source for source, _ in reserved.copies] == [pages[4]] * 2
        assert pool.free == 20 - 7  # the page that is copied cannot be taken before it is
    assert pool.free == 20 - 6
    pool.open(4)
    assert pool.adopt(4, (*TEXT, 7)) == 20
    pool.check_integrity()


def test_who_alone_holds_a_page_writes_into_it_though_no_other_is_free():
    pool = pool_of(pages=5)
    pages = filled(pool, 1)
    pool.truncate(1, 18)
    assert (pool.free, pool.wanted(1, 20)) == (0, 0)
    assert append(pool, 1, (7, 8)) == []
    assert list(pool.table(1)) == pages
    assert pool.cached == 4
    pool.check_integrity()
    pool.commit(1, (*TEXT[:18], 7, 8))
    pool.close(1)
    pool.open(2)
    assert pool.adopt(2, (*TEXT, 0)) == 16
    pool.truncate(2, 0)
    assert pool.adopt(2, (*TEXT[:18], 7, 8, 0)) == 20


def test_too_few_pages_change_nothing():
    pool = pool_of(pages=5)
    filled(pool, 1, TEXT[:6])
    pool.open(2)
    before = list(pool.table(1))
    with pytest.raises(Full, match="pages: 4 wanted for the tokens of 2 slots, 3 are free"):
        pool.reserve([(1, TEXT[:3]), (2, TEXT[:12])])
    assert (pool.length(1), pool.length(2), list(pool.table(1)), pool.free) == (6, 0, before, 3)
    pool.check_integrity()


def test_a_pass_that_raises_is_taken_back():
    pool = pool_of(pages=40)
    pages = filled(pool, 1)
    pool.open(2)
    pool.adopt(2, (*TEXT, 7))
    pool.truncate(2, 18)
    pool.open(3)
    free = pool.free
    with pytest.raises(ZeroDivisionError), pool.reserve([(2, TEXT), (1, TEXT), (3, TEXT)]):
        1 / 0  # noqa: B018
    assert (pool.length(1), pool.length(2), pool.length(3)) == (20, 18, 0)
    assert list(pool.table(1)) == list(pool.table(2)) == pages
    assert (pool.free, pool.cached) == (free, 5)
    pool.check_integrity()


@pytest.mark.parametrize(("taken", "old_left", "new_left"), [(1, 3, 3), (2, 2, 3), (4, 0, 3), (5, 0, 2), (7, 0, 0)])
def test_the_text_used_longest_ago_goes_first_and_its_end_before_its_beginning(taken, old_left, new_left):
    pool = pool_of(pages=7, page_size=1)
    for slot, text in enumerate(((1, 2, 3), (4, 5, 6))):
        filled(pool, slot, text)
    for slot in (0, 1):
        pool.close(slot)
    pool.open(9)
    append(pool, 9, (7,) * taken)
    pool.check_integrity()
    for slot, text, left in ((0, (1, 2, 3), old_left), (1, (4, 5, 6), new_left)):
        pool.open(slot)
        assert pool.adopt(slot, (*text, 0)) == left


def test_a_look_makes_a_beginning_younger():
    pool = pool_of(pages=6, page_size=1)
    for slot, text in enumerate(((1, 2, 3), (4, 5, 6))):
        filled(pool, slot, text)
        pool.close(slot)
    pool.open(2)
    assert pool.adopt(2, (1, 2, 0)) == 2
    pool.close(2)
    pool.open(3)
    append(pool, 3, (9,) * 4)  # 3, then 6, 5, 4
    pool.open(4)
    assert pool.adopt(4, (4, 0)) == 0
    assert pool.adopt(4, (1, 2, 3, 0)) == 2


def test_bad_calls_are_refused_and_change_nothing():
    pool = pool_of()
    filled(pool, 1)
    bad: list[tuple[Callable[[], object], str]] = [
        (lambda: PagePool(0, 16), "pages: got 0"),
        (lambda: PagePool(4, 0), "page_size: got 0"),
        (lambda: pool.open(1), "not in use"),
        (lambda: pool.close(2), "slot: got 2"),
        (lambda: pool.length(2), "slot: got 2"),
        (lambda: pool.table(2), "slot: got 2"),
        (lambda: pool.wanted(2, 1), "slot: got 2"),
        (lambda: pool.commit(2, TEXT), "slot: got 2"),
        (lambda: pool.adopt(2, TEXT), "slot: got 2"),
        (lambda: pool.adopt(1, TEXT), "slot: got 1, wanted an empty slot, this one holds 20 tokens"),
        (lambda: pool.truncate(1, 21), "length: got 21"),
        (lambda: pool.truncate(1, -1), "length: got -1"),
        (lambda: pool.reserve([(1, (1,)), (2, (1,))]), "slot: got 2"),
        (lambda: pool.reserve([(1, (1, -1))]), "tokens: got -1"),
        (lambda: pool.reserve([(1, (1 << 32,))]), "tokens: got 4294967296"),
    ]
    for call, message in bad:
        with pytest.raises(InvalidField, match=message):
            call()
    assert (pool.length(1), pool.free, pool.cached) == (20, 15, 5)
    pool.check_integrity()
