"""What every runner has to keep about its memory and about beginnings that slots share; and runners that do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from foreword.errors import Full, InvalidField
from foreword.runner.port import Logits, Rows, Runner
from foreword.testing.synthetic import Side, SyntheticRunner
from tests.contract.runner.runners import (
    CRAMPED,
    MODEL,
    OTHER,
    SALTS,
    TEXT,
    V,
    assert_close,
    at_once,
)


@pytest.fixture(params=CRAMPED)
def cramped(request: pytest.FixtureRequest) -> Runner:
    runner: Runner = request.param()
    return runner


def opened(runner: Runner, slot: int, tokens: tuple[int, ...], *, salt: bytes = b"", committed: int = 0) -> None:
    """Open a slot, read `tokens` and commit the first of them."""
    runner.open(slot, salt=salt)
    runner.forward([Rows(slot, tokens, 0)])
    runner.commit(slot, tokens[:committed])


def whole(runner: Runner, count: int) -> int:
    """Return how many of `count` tokens fill whole pages."""
    return count - count % runner.memory.page_size


def test_pages_are_counted(runner):
    before = runner.memory
    assert 0 < before.free <= before.pages
    runner.open(0)
    for end in (1, 5, 30, 31, 60):
        free, wanted = runner.memory.free, runner.pages_wanted(0, end)
        runner.forward([Rows(0, TEXT[runner.length(0) : end], 0)])
        assert runner.memory.free == free - wanted
        assert runner.pages_wanted(0, end) == runner.pages_wanted(0, 1) == 0
    runner.truncate(0, 5)
    assert before.free - runner.memory.free == -(-5 // before.page_size)
    runner.close(0)
    assert runner.memory == before


def test_what_is_committed_takes_no_room_once_its_slot_is_closed(runner):
    before = runner.memory
    opened(runner, 0, TEXT, committed=60)
    runner.close(0)
    assert runner.memory == before


def test_adopting_never_changes_what_comes_out(runner):
    salt, wanted = next(SALTS), at_once(runner, TEXT)
    opened(runner, 0, TEXT, salt=salt, committed=60)
    for slot, length in ((1, 60), (2, 59), (3, 33), (4, 1)):
        runner.open(slot, salt=salt)
        adopted = runner.adopt(slot, TEXT[:length])
        assert runner.length(slot) == adopted < length
        assert adopted in (0, whole(runner, length - 1))
        (logits,) = runner.forward([Rows(slot, TEXT[adopted:length], length - adopted)])
        assert_close(logits, wanted[adopted:length])


def test_calls_are_checked(runner):
    opened(runner, 0, TEXT[:5])
    runner.open(1)
    runner.open(2, salt=b"other")
    calls: list[Callable[[], object]] = [
        lambda: runner.adopt(3, TEXT),
        lambda: runner.commit(3, TEXT),
        lambda: runner.pages_wanted(3, 9),
        lambda: runner.adopt(0, TEXT),
        lambda: runner.open(0, salt=b"other"),
        lambda: runner.fork(3, 1, 2),
        lambda: runner.fork(0, 3, 2),
        lambda: runner.fork(0, 0, 2),
        lambda: runner.fork(0, 1, 6),
        lambda: runner.fork(0, 1, -1),
        lambda: runner.fork(0, 2, 2),
    ]
    for call in calls:
        with pytest.raises(InvalidField):
            call()
    assert [runner.length(slot) for slot in (0, 1, 2)] == [5, 0, 0]


def check_shared_beginnings(runner: Runner) -> None:
    """Slots begin with what others have committed, open or closed, as far as the texts are the same."""
    salt, wanted = next(SALTS), at_once(runner, TEXT)
    opened(runner, 0, TEXT, salt=salt, committed=60)
    for closed in (False, True):
        if closed:
            runner.close(0)
        for length, text in ((60, TEXT), (40, TEXT[:40] + OTHER), (0, OTHER)):
            runner.open(1, salt=salt)
            assert runner.adopt(1, text) == whole(runner, min(length, len(text) - 1))
            adopted = runner.length(1)
            (logits,) = runner.forward([Rows(1, text[adopted:], len(text) - adopted)])
            assert_close(logits, at_once(runner, text)[adopted:])
            runner.close(1)
    runner.open(1, salt=salt)
    adopted = runner.adopt(1, TEXT)
    for position in range(adopted, 60):
        (logits,) = runner.forward([Rows(1, TEXT[position : position + 1], 1)])
        assert_close(logits, wanted[position : position + 1])


def check_only_committed(runner: Runner) -> None:
    """What was rolled back, or is not committed yet, is not adopted; a commit may be ahead of what is held."""
    salt = next(SALTS)
    opened(runner, 0, TEXT[:40], salt=salt, committed=30)
    runner.forward([Rows(0, OTHER[:20], 20)])
    runner.truncate(0, 42)
    text = TEXT[:40] + OTHER[:20]
    runner.open(1, salt=salt)
    assert runner.adopt(1, text) == whole(runner, 30)
    runner.truncate(1, 0)
    runner.commit(0, text[:42] + TEXT)
    assert runner.adopt(1, text) == whole(runner, 42)
    runner.close(1)
    (logits,) = runner.forward([Rows(0, TEXT[:18], 18)])
    runner.commit(0, text[:42] + TEXT)
    assert_close(logits, at_once(runner, text[:42] + TEXT[:18])[42:])
    runner.open(1, salt=salt)
    assert runner.adopt(1, text) == whole(runner, 42)
    runner.truncate(1, 0)
    assert runner.adopt(1, text[:42] + TEXT) == whole(runner, 60)


def check_salts(runner: Runner) -> None:
    """Other salts, other pages."""
    opened(runner, 0, TEXT, salt=next(SALTS), committed=60)
    runner.open(1, salt=next(SALTS))
    assert runner.adopt(1, TEXT) == 0


def check_shared_pages_are_copied(runner: Runner) -> None:
    """Slots that go back into a shared page and write there do not disturb each other."""
    salt = next(SALTS)
    opened(runner, 0, TEXT, salt=salt, committed=60)
    for slot in (1, 2):
        runner.open(slot, salt=salt)
        assert runner.adopt(slot, TEXT) > 20
        runner.truncate(slot, 20)
    texts = {1: TEXT[:20] + OTHER[:9], 2: TEXT[:20] + OTHER[30:41]}
    batch = [Rows(slot, text[20:], len(text) - 20) for slot, text in texts.items()]
    wanted = sum(runner.pages_wanted(rows.slot, 20 + len(rows.tokens)) for rows in batch)
    free = runner.memory.free
    for logits, rows in zip(runner.forward(batch), batch, strict=True):
        assert_close(logits, at_once(runner, texts[rows.slot])[20:])
    assert runner.memory.free == free - wanted
    (logits,) = runner.forward([Rows(0, OTHER[:3], 3)])
    assert_close(logits, at_once(runner, TEXT + OTHER[:3])[60:])


def check_forks(runner: Runner) -> None:
    """Slots that go on from one text in their own ways do not see each other, nor what the first does meanwhile."""
    salt = next(SALTS)
    opened(runner, 0, TEXT[:45], salt=salt, committed=20)
    free = runner.memory.free
    texts = {slot: (*TEXT[:length], slot, *OTHER[slot : slot + 20]) for slot, length in ((1, 45), (2, 41), (3, 16))}
    for slot, length in ((1, 45), (2, 41), (3, 16), (4, 0)):
        runner.open(slot, salt=salt)
        runner.fork(0, slot, length)
        assert runner.length(slot) == length
    assert runner.memory.free == free
    batch = [Rows(slot, text[runner.length(slot) :], 2) for slot, text in texts.items()]
    runner.truncate(0, 43)
    batch.append(Rows(0, OTHER[:9], 2))
    texts[0] = TEXT[:43] + OTHER[:9]
    for logits, rows in zip(runner.forward(batch), batch, strict=True):
        assert_close(logits, at_once(runner, texts[rows.slot])[-2:])
    runner.open(5, salt=salt)
    runner.fork(1, 5, runner.length(1))
    for slot in (0, 1):
        runner.close(slot)
    (logits,) = runner.forward([Rows(5, OTHER[:4], 4)])
    assert_close(logits, at_once(runner, texts[1] + OTHER[:4])[-4:])
    for slot in (2, 3, 4, 5):
        runner.close(slot)


CHECKS = (check_shared_beginnings, check_only_committed, check_salts, check_shared_pages_are_copied, check_forks)


@pytest.mark.parametrize("check", CHECKS)
def test_beginnings_are_shared(runner, check):
    check(runner)


def test_equal_texts_read_at_once_come_to_share_their_pages(runner):
    salt, size = next(SALTS), runner.memory.page_size
    runner.open(0, salt=salt)
    runner.open(1, salt=salt)
    free = runner.memory.free
    runner.forward([Rows(0, TEXT, 0), Rows(1, TEXT, 0)])
    for slot in (0, 1):
        runner.commit(slot, TEXT)
    assert runner.memory.free == free - 2 * -(-60 // size) + 60 // size
    wanted = at_once(runner, TEXT + OTHER[:9])[60:]
    for logits in runner.forward([Rows(0, OTHER[:9], 9), Rows(1, OTHER[:9], 9)]):
        assert_close(logits, wanted)


def test_too_few_pages_are_said_before_anything_changes(cramped):
    opened(cramped, 0, TEXT)
    cramped.open(1)
    free = cramped.memory.free
    with pytest.raises(Full):
        cramped.forward([Rows(0, OTHER[:4], 1), Rows(1, OTHER + TEXT[:5], 1)])
    assert (cramped.length(0), cramped.length(1), cramped.memory.free) == (60, 0, free)
    cramped.close(1)
    (logits,) = cramped.forward([Rows(0, OTHER[:4], 4)])
    cramped.truncate(0, 0)
    (wanted,) = cramped.forward([Rows(0, TEXT + OTHER[:4], 4)])
    assert_close(logits, wanted)


def test_what_is_only_kept_makes_room(cramped):
    size = cramped.memory.page_size
    for slot, tokens in enumerate((TEXT, OTHER)):
        opened(cramped, slot, tokens, committed=60)
        cramped.close(slot)
    assert cramped.memory.free == cramped.memory.pages == 8
    random = np.random.default_rng(5)
    long = tuple(int(i) for i in random.integers(0, V, 5 * size))
    opened(cramped, 0, long)
    cramped.open(1)
    assert cramped.adopt(1, TEXT) == 0  # used longest ago
    assert cramped.adopt(1, OTHER) == 3 * size
    assert cramped.memory.free == 0
    with pytest.raises(Full):
        cramped.forward([Rows(1, OTHER[3 * size :], 1)])


class _Unsalted(SyntheticRunner):
    """Shares whatever the salt."""

    def open(self, slot: int, *, salt: bytes = b"") -> None:
        super().open(slot)


class _KeepsItToItself(SyntheticRunner):
    """Commits nothing that would be the last page."""

    def commit(self, slot: int, tokens: tuple[int, ...]) -> None:
        super().commit(slot, tokens[: -self.memory.page_size])


class _CommitsWhatItHolds(SyntheticRunner):
    """Lets candidates be adopted."""

    def forward(self, batch: Sequence[Rows]) -> list[Logits]:
        logits = super().forward(batch)
        for rows in batch:
            super().commit(rows.slot, self._pool._slots[rows.slot].tokens.tolist())
        return logits


class _WritesIntoSharedPages(SyntheticRunner):
    """Leaves out the copies."""

    def forward(self, batch: Sequence[Rows]) -> list[Logits]:
        for rows in batch:
            table = self._pool.table(rows.slot)
            if table and self.length(rows.slot) % self.memory.page_size:
                self._pool._stock.holders[table[-1]] = 1
        return super().forward(batch)


class _ForgetsToCopy(SyntheticRunner):
    """Takes a new page for a shared one, and leaves in it what was there."""

    def forward(self, batch: Sequence[Rows]) -> list[Logits]:
        shared = {page: self._cells[page] for rows in batch for page in self._pool.table(rows.slot)[-1:]}
        for page, cells in shared.items():
            self._cells[page] = [0] * len(cells)
        logits = super().forward(batch)
        self._cells.update(
            {page: cells for page, cells in shared.items() if all(page not in self._pool.table(r.slot) for r in batch)}
        )
        return logits


class _ForksTheWholeSlot(SyntheticRunner):
    """Leaves pages to a fork that are not part of its text."""

    def fork(self, source: int, slot: int, length: int) -> None:
        super().fork(source, slot, self.length(source))


class _AdoptsOtherPages(SyntheticRunner):
    """Says that it has the beginning, and has its pages in another order."""

    def adopt(self, slot: int, tokens: tuple[int, ...]) -> int:
        length = super().adopt(slot, tokens)
        self._pool._slots[slot].table.reverse()
        return length


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (_Unsalted, check_salts),
        (_KeepsItToItself, check_shared_beginnings),
        (_CommitsWhatItHolds, check_only_committed),
        (_WritesIntoSharedPages, check_shared_pages_are_copied),
        (_ForgetsToCopy, check_shared_pages_are_copied),
        (_WritesIntoSharedPages, check_forks),
        (_ForgetsToCopy, check_forks),
        (_ForksTheWholeSlot, check_forks),
        (_AdoptsOtherPages, check_shared_beginnings),
    ],
)
def test_broken_runners_are_caught(broken, check):
    with pytest.raises(AssertionError):
        check(broken(MODEL, side=Side.TARGET))
