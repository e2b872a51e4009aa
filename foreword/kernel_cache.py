"""Compiled kernels on disk, shared by processes: one of them at a time reads or writes those of a file.

Numba picks the name of a new entry from an index that it has read, and writes both. Two processes that start together
and compile a function for different types, as a target's and a draft's engine do, could pick the same name: the index
then named the code of the other, and whoever loaded it next died (SIGSEGV).

So did whoever began with a function that calls a parallel one which its compiler had found on disk: such code does not
start the threads that it needs. They are started before anything is loaded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from numba import get_num_threads
from numba.core.caching import IndexDataCacheFile

try:
    import fcntl
except ImportError:  # Windows, where nobody has run this
    fcntl = None  # type: ignore[assignment]

_MARK = "_one_process_at_a_time"


def share_kernels() -> None:
    """Have this process take turns with others at the files that Numba keeps; more than once does no harm."""
    if fcntl is None or hasattr(IndexDataCacheFile, _MARK):
        return
    turns = {"save": _in_turn(IndexDataCacheFile.save), "load": _with_threads(_in_turn(IndexDataCacheFile.load))}
    for name, method in turns.items():
        setattr(IndexDataCacheFile, name, method)
    setattr(IndexDataCacheFile, _MARK, True)


def _with_threads(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def wrapped(self: Any, *args: Any) -> Any:
        get_num_threads()  # which starts them
        return method(self, *args)

    return wrapped


def _in_turn(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def wrapped(self: Any, *args: Any) -> Any:
        with _locked(f"{self._index_path}.lock"):
            return method(self, *args)

    return wrapped


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """Hold a file's lock; where the folder is not to be written to, nothing is written, and nothing has to wait."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:
        yield
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)
