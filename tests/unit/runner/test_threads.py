"""Passes that are over before a thread wakes up run on one."""

from __future__ import annotations

import pytest
from numba import get_num_threads, set_num_threads

from foreword.runner.threads import FEW_ROWS, SMALL_BYTES, Threads


@pytest.mark.parametrize(
    ("size", "rows", "alone"),
    [(SMALL_BYTES, FEW_ROWS, True), (SMALL_BYTES, FEW_ROWS + 1, False), (SMALL_BYTES + 1, 1, False)],
)
def test_few_rows_of_a_small_model_take_one_thread(size: int, rows: int, alone: bool) -> None:
    most = get_num_threads()
    threads = Threads.now(size)
    threads.use(rows)
    assert get_num_threads() == (1 if alone else most)
    threads.use(FEW_ROWS + 1)
    assert get_num_threads() == most
    set_num_threads(most)
