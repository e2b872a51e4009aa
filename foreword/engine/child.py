"""Runs an engine's entry in the engine process and reports how it ended."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import pickle
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Any

from foreword.engine.channel import EngineChannel, EngineStopped
from foreword.errors import EngineFailure, ForewordError, InvalidField

_PR_SET_PDEATHSIG = 1
EXIT_FAILED = 70
"""Exit status of an engine that has told its service why it ends (EX_SOFTWARE)."""

Entry = Callable[[EngineChannel, Any], None]


def main(fd: int, parent: int) -> int:
    """Serve the socket `fd` of the process `parent`; returns the exit status."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the service decides when its engine ends
        signal.signal(number, _ignore)  # SIG_IGN would pass on to processes that the engine starts
    die_with_parent(parent)
    channel = EngineChannel(_adopt(fd))
    try:
        start = channel.start()
        entry = load_entry(start.entry)
        entry(channel, start.settings)
    except EngineStopped:
        return 0
    except ForewordError as error:
        channel.fail(_portable(error))
        return EXIT_FAILED
    except Exception as error:
        traceback.print_exc()
        channel.fail(EngineFailure(one_line(error)))
        return EXIT_FAILED
    return 0


def load_entry(name: str) -> Entry:
    """Return the function that `module:name` names; raises InvalidField if there is none."""
    module, _, function = name.partition(":")
    try:
        entry: Entry = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidField("engine.entry", name, f"a function as module:name ({one_line(error)})") from error
    return entry


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent dies, also amid a forward pass; Linux only.

    Elsewhere the end of the socket does it, at the next receive.
    """
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError, AttributeError):  # a libc without prctl: the socket's end remains
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the call
        sys.exit(0)


def one_line(error: BaseException) -> str:
    """Return an error as one line of text."""
    text = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _ignore(_: int, __: object) -> None:
    return None


def _portable(error: ForewordError) -> ForewordError:
    """Return the error, or its text alone if it holds values that do not pickle."""
    try:
        pickle.dumps(error, protocol=5)
    except Exception:
        return EngineFailure(error.message)
    return error


def _adopt(fd: int) -> socket.socket:
    """Return the socket under the lowest free number, because select() takes none over 1023."""
    low = os.dup(fd)
    os.close(fd)
    return socket.socket(fileno=low)
