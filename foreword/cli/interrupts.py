"""Ctrl-C while code is loaded: it ends the process, and nothing has been started yet that would have to end with it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

EXIT_INTERRUPTED: Final = 130


@contextmanager
def quietly_interrupted() -> Iterator[None]:
    """End the process at once on Ctrl-C, without a word.

    An exception would not do: libraries in C take it for a fault of their own, say that a module is missing, or abort.
    """
    mine = threading.current_thread() is threading.main_thread()
    if not mine or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield  # somebody else decides, a shell that ignores it for a job in the background for instance
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(EXIT_INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
