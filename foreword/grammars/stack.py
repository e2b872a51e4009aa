"""Calls with room for deep recursion."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, TypeVar

STACK_BYTES: Final = 256 << 20
"""Enough for the deepest chain of rules that a source of the longest length can hold, 3 kB for each of them.

Memory is taken only for what is used.
"""
_starting: Final = threading.Lock()

T = TypeVar("T")


def deep(call: Callable[[], T]) -> T:
    """Return what `call` returns, in a thread with a large stack; what overflows a stack ends the process."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    thread = threading.Thread(target=run, name="deep", daemon=True)
    with _starting:
        # Of threads that start now: others that happen to are none the worse.
        before = threading.stack_size(STACK_BYTES)
        try:
            thread.start()
        finally:
            threading.stack_size(before)
    return future.result()
