"""What every runner has to keep, whatever it runs; and broken runners that do not pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from foreword.errors import InvalidField
from foreword.runner.port import Logits, Rows, Runner
from foreword.testing.synthetic import Side, SyntheticRunner
from tests.contract.runner.runners import (
    LONGEST,
    MODEL,
    OTHER,
    TEXT,
    V,
    assert_close,
    at_once,
)


def check_one_by_one(runner: Runner) -> None:
    wanted = at_once(runner, TEXT)
    runner.open(0)
    for i, token in enumerate(TEXT):
        (logits,) = runner.forward([Rows(0, (token,), 1)])
        assert_close(logits, wanted[i : i + 1])


def check_rollback(runner: Runner) -> None:
    wanted = at_once(runner, TEXT[:40])
    runner.open(0)
    runner.forward([Rows(0, TEXT[:20], 0)])
    for length, wrong in ((20, 5), (19, 1), (11, 9), (0, 3), (16, 20)):
        runner.forward([Rows(0, OTHER[:wrong], wrong)])
        runner.truncate(0, length)
        assert runner.length(0) == length
        (logits,) = runner.forward([Rows(0, TEXT[length:40], 40 - length)])
        assert_close(logits, wanted[length:])
        runner.truncate(0, 20)


def check_ragged_batch(runner: Runner) -> None:
    texts = (TEXT, OTHER, TEXT[5:], OTHER[9:])
    wanted = [at_once(runner, text) for text in texts]
    done = [0] * len(texts)
    for slot in range(len(texts)):
        runner.open(slot)
    random = np.random.default_rng(0)
    while any(done[slot] < 40 for slot in range(len(texts))):
        batch = []
        for slot in random.permutation(len(texts)):
            count = min(int(random.integers(0, 9)), 40 - done[slot])
            if count:
                need = int(random.integers(0, count + 1))
                batch.append(Rows(int(slot), texts[slot][done[slot] : done[slot] + count], need))
        for rows, logits in zip(batch, runner.forward(batch), strict=True):
            done[rows.slot] += len(rows.tokens)
            end = done[rows.slot]
            assert_close(logits, wanted[rows.slot][end - rows.need : end])


CHECKS = (check_one_by_one, check_rollback, check_ragged_batch)


@pytest.mark.parametrize("check", CHECKS)
def test_logits_are_a_function_of_the_context(runner, check):
    check(runner)


def test_it_is_a_runner(runner):
    assert isinstance(runner, Runner)
    assert runner.vocabulary_size == V
    assert runner.longest_context == LONGEST


def test_shapes(runner):
    runner.open(0)
    runner.open(1)
    first, second = runner.forward([Rows(0, TEXT[:9], 3), Rows(1, OTHER[:2], 0)])
    assert first.shape == (3, V)
    assert second.shape == (0, V)
    assert first.dtype == second.dtype == np.float32
    assert runner.forward([]) == []


def test_lengths_are_counted(runner):
    runner.open(0)
    runner.open(1)
    runner.forward([Rows(0, TEXT[:9], 1), Rows(1, TEXT[:4], 1)])
    assert (runner.length(0), runner.length(1), runner.resident_tokens) == (9, 4, 13)
    runner.truncate(0, 2)
    assert runner.resident_tokens == 6
    runner.close(1)
    assert runner.resident_tokens == 2
    runner.open(1)
    assert runner.length(1) == 0


def test_a_slot_can_be_filled_to_the_brim(runner):
    runner.open(0)
    full = (TEXT * 3)[:LONGEST]
    (logits,) = runner.forward([Rows(0, full, 1)])
    assert np.isfinite(logits).any()
    with pytest.raises(InvalidField, match=f"at most {LONGEST}"):
        runner.forward([Rows(0, (1,), 1)])


@pytest.mark.parametrize(
    "bad",
    [
        Rows(0, (V,), 1),
        Rows(0, (3, -1), 1),
        Rows(0, (), 0),
        Rows(0, (1, 2), 3),
        Rows(0, (1, 2), -1),
        Rows(0, (1,) * (LONGEST + 1), 0),
        Rows(0, (1,), 1, temperature=float("nan")),
        Rows(0, (1,), 1, temperature=-1.0),
        Rows(5, (1,), 1),
    ],
    ids=lambda rows: f"{rows.slot}-{rows.tokens[:2]}x{len(rows.tokens)}-{rows.need}",
)
def test_a_bad_row_is_refused_before_anything_happens(runner, bad):
    runner.open(0)
    runner.open(1)
    runner.forward([Rows(0, TEXT[:5], 0)])
    with pytest.raises(InvalidField):
        runner.forward([Rows(1, (4,), 1), bad])
    assert (runner.length(0), runner.length(1)) == (5, 0)
    (logits,) = runner.forward([Rows(0, TEXT[5:8], 3)])
    assert_close(logits, at_once(runner, TEXT[:8])[5:])


def test_slots_are_checked(runner):
    runner.open(0)
    with pytest.raises(InvalidField, match="not in use"):
        runner.open(0)
    with pytest.raises(InvalidField, match="once"):
        runner.forward([Rows(0, (1,), 1), Rows(0, (2,), 1)])
    calls: list[Callable[[], object]] = [
        lambda: runner.close(3),
        lambda: runner.length(3),
        lambda: runner.truncate(3, 0),
        lambda: runner.truncate(0, 1),
        lambda: runner.truncate(0, -1),
    ]
    for call in calls:
        with pytest.raises(InvalidField):
            call()


class _KeepsWhatWasRolledBack(SyntheticRunner):
    """Its length is right and its context is not."""

    def truncate(self, slot: int, length: int) -> None:
        page, offset = self._end(slot, self.length(slot))
        last = self._cells[page][offset]
        super().truncate(slot, length)
        if length:
            page, offset = self._end(slot, length)
            self._cells[page][offset] = last

    def _end(self, slot: int, length: int) -> tuple[int, int]:
        page, offset = divmod(length - 1, self.memory.page_size)
        return self._pool.table(slot)[page], offset


class _MixesSlots(SyntheticRunner):
    """Gives each slot the logits of the next one in the batch where they have the same shape."""

    def forward(self, batch: Sequence[Rows]) -> list[Logits]:
        logits = super().forward(batch)
        turned = logits[1:] + logits[:1]
        return [new if new.shape == old.shape else old for old, new in zip(logits, turned, strict=True)]


class _FirstRowsForLast(SyntheticRunner):
    """Returns the logits of the first rows where the last ones are wanted."""

    def forward(self, batch: Sequence[Rows]) -> list[Logits]:
        all_rows = super().forward([Rows(r.slot, r.tokens, len(r.tokens), r.temperature) for r in batch])
        return [logits[: rows.need] for logits, rows in zip(all_rows, batch, strict=True)]


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (_KeepsWhatWasRolledBack, check_rollback),
        (_MixesSlots, check_ragged_batch),
        (_FirstRowsForLast, check_ragged_batch),
    ],
)
def test_broken_runners_are_caught(broken, check):
    with pytest.raises(AssertionError):
        check(broken(MODEL, side=Side.TARGET))
