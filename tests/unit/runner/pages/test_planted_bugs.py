"""Pools with one mistake each: the random lives that the real pool survives must not pass on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from foreword.runner.pages import pool as pool_module
from foreword.runner.pages import reservation
from foreword.runner.pages.pool import PagePool
from foreword.runner.pages.prefix_index import PrefixIndex, chained
from foreword.runner.pages.reservation import Reservation
from foreword.runner.pages.slot import SlotPages, packed
from foreword.runner.pages.stock import PageStock
from tests.unit.runner.pages.world import random_life

Patch = pytest.MonkeyPatch


def adopted_pages_are_not_counted(patch: Patch) -> None:
    def hold(self: PageStock, page: int) -> None:
        if self.holders[page] == 0:
            self.index.wake(page)
            self.holders[page] = 1

    patch.setattr(PageStock, "hold", hold)


def a_closed_slot_keeps_its_last_page(patch: Patch) -> None:
    def close(self: PagePool, slot: int) -> None:
        self._slots[slot].table and self._slots[slot].table.pop()
        del self._slots[slot].tokens[-1:]
        real(self, slot)

    real = PagePool.close
    patch.setattr(PagePool, "close", close)


def what_is_rejected_is_indexed(patch: Patch) -> None:
    def reserve(self: PagePool, batch: Sequence[tuple[int, Sequence[int]]]) -> Reservation:
        reserved = real(self, batch)
        for slot, _ in batch:
            self.commit(slot, self._slots[slot].tokens.tolist())
        return reserved

    real = PagePool.reserve
    patch.setattr(PagePool, "reserve", reserve)


def any_tokens_are_committed(patch: Patch) -> None:
    def commit(self: PagePool, slot: int, tokens: Sequence[int]) -> None:
        held, size = self._slots[slot], self.page_size
        for number in range(held.committed, min(len(tokens), len(held.tokens)) // size):
            content = packed(tokens[number * size : (number + 1) * size]).tobytes()
            self._enter(held, number, chained(held.chain[-1], content))

    patch.setattr(PagePool, "commit", commit)


def shared_pages_are_written_to(patch: Patch) -> None:
    patch.setattr(PagePool, "_writable", lambda self, held, reservation: None)


def a_page_stays_indexed_while_its_owner_writes_over_it(patch: Patch) -> None:
    def writable(self: PagePool, held: SlotPages, reservation: Reservation) -> int | None:
        return real(self, held, reservation) if self._stock.holders[held.table[-1]] > 1 else None

    real = PagePool._writable
    patch.setattr(PagePool, "_writable", writable)


def salts_are_ignored(patch: Patch) -> None:
    patch.setattr(pool_module, "root", lambda salt: bytes(16))


def pages_are_found_whatever_came_before_them(patch: Patch) -> None:
    patch.setattr(pool_module, "chained", lambda parent, content: chained(bytes(16), content))


def a_rollback_keeps_the_digests(patch: Patch) -> None:
    def cut(slot: SlotPages, length: int, *, stock: PageStock, page_size: int) -> None:
        chain = list(slot.chain)
        real(slot, length, stock=stock, page_size=page_size)
        slot.chain[:] = chain

    real = reservation.cut
    patch.setattr(pool_module, "cut", cut)


def an_evicted_page_can_still_be_found(patch: Patch) -> None:
    patch.setattr(PrefixIndex, "evict", lambda self: self._idle.popitem(last=False)[0])


def pages_are_evicted_before_those_that_follow_them(patch: Patch) -> None:
    def evict(self: PrefixIndex) -> int:
        page, _ = self._idle.popitem(last=True)
        self.withdraw(page)
        return page

    patch.setattr(PrefixIndex, "evict", evict)


def a_failed_pass_is_not_undone(patch: Patch) -> None:
    patch.setattr(Reservation, "_undo", lambda self: None)


def a_failed_pass_loses_the_page_that_it_copied(patch: Patch) -> None:
    def undo(self: Reservation) -> None:
        self.grown = [grown._replace(shared=None) for grown in self.grown]
        real(self)

    real = Reservation._undo
    patch.setattr(Reservation, "_undo", undo)


def a_page_that_is_copied_is_never_let_go_of(patch: Patch) -> None:
    def leave(self: Reservation, kind: object, error: object, trace: object) -> None:
        if kind is not None:
            self._undo()

    patch.setattr(Reservation, "__exit__", leave)


def copies_are_not_counted_as_wanted(patch: Patch) -> None:
    def wanted(self: PagePool, held: SlotPages, length: int) -> int:
        return max(0, -(-length // self.page_size) - len(held.table))

    patch.setattr(PagePool, "_wanted", wanted)


def a_whole_prompt_is_adopted(patch: Patch) -> None:
    def adopt(self: PagePool, slot: int, tokens: Sequence[int]) -> int:
        return real(self, slot, (*tokens, 0))

    real = PagePool.adopt
    patch.setattr(PagePool, "adopt", adopt)


def equal_pages_are_kept_twice(patch: Patch) -> None:
    def enter(self: PagePool, held: SlotPages, number: int, digest: bytes) -> None:
        if self._stock.index.find(digest) is None:
            self._stock.index.add(held.table[number], digest)
        held.chain.append(digest)

    patch.setattr(PagePool, "_enter", enter)


def a_fork_does_not_hold_its_last_page(patch: Patch) -> None:
    def fork(self: PagePool, source: int, slot: int, length: int) -> None:
        real(self, source, slot, length)
        if length % self.page_size:
            self._stock.holders[self._slots[slot].table[-1]] -= 1

    real = PagePool.fork
    patch.setattr(PagePool, "fork", fork)


def a_fork_keeps_digests_that_it_has_no_tokens_for(patch: Patch) -> None:
    def fork(self: PagePool, source: int, slot: int, length: int) -> None:
        real(self, source, slot, length)
        self._slots[slot].chain = list(self._slots[source].chain)

    real = PagePool.fork
    patch.setattr(PagePool, "fork", fork)


def a_fork_takes_over_another_slots_table(patch: Patch) -> None:
    def fork(self: PagePool, source: int, slot: int, length: int) -> None:
        real(self, source, slot, length)
        if length == len(self._slots[source].tokens):
            self._slots[slot].table = self._slots[source].table

    real = PagePool.fork
    patch.setattr(PagePool, "fork", fork)


BUGS: tuple[Callable[[Patch], None], ...] = (
    adopted_pages_are_not_counted,
    a_closed_slot_keeps_its_last_page,
    what_is_rejected_is_indexed,
    any_tokens_are_committed,
    shared_pages_are_written_to,
    a_page_stays_indexed_while_its_owner_writes_over_it,
    salts_are_ignored,
    pages_are_found_whatever_came_before_them,
    a_rollback_keeps_the_digests,
    an_evicted_page_can_still_be_found,
    pages_are_evicted_before_those_that_follow_them,
    a_failed_pass_is_not_undone,
    a_failed_pass_loses_the_page_that_it_copied,
    a_page_that_is_copied_is_never_let_go_of,
    copies_are_not_counted_as_wanted,
    a_whole_prompt_is_adopted,
    equal_pages_are_kept_twice,
    a_fork_does_not_hold_its_last_page,
    a_fork_keeps_digests_that_it_has_no_tokens_for,
    a_fork_takes_over_another_slots_table,
)


def lives() -> None:
    """Live in plenty and in need, with and without rollbacks into what is committed."""
    for pages, page_size, cuts_committed in ((400, 4, False), (24, 4, False), (24, 4, True), (400, 4, True)):
        random_life(PagePool(pages, page_size), 3, steps=300, cuts_committed=cuts_committed)
    random_life(PagePool(60, 4), 3, steps=300, cuts_committed=False, forks=True)


def test_the_real_pool_survives() -> None:
    lives()


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_planted_bugs_are_caught(bug: Callable[[Patch], None], monkeypatch: Patch) -> None:
    bug(monkeypatch)
    with pytest.raises((AssertionError, KeyError, IndexError)):
        lives()
