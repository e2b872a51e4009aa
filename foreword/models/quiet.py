"""Libraries of Hugging Face without their progress bars and advice: services log, and the command line draws."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers and put its switches back; what it warns of later is a line of our log."""
    from transformers.utils import logging as switches

    _route("transformers", "huggingface_hub")
    verbosity, bars = switches.get_verbosity(), switches.is_progress_bar_enabled()
    switches.set_verbosity_error()  # type: ignore[no-untyped-call]
    switches.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        switches.set_verbosity(verbosity)
        if bars:
            switches.enable_progress_bar()  # type: ignore[no-untyped-call]


@contextmanager
def hub_output() -> Iterator[None]:
    """Let the hub's client draw bars on a terminal and nowhere else; what it warns of is a line of our log.

    Attempts that it repeats are no news: what came of them is the call's result, or its error.
    """
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    _route("huggingface_hub")
    hidden = not sys.stderr.isatty() and not are_progress_bars_disabled()
    if hidden:
        disable_progress_bars()
    requests = logging.getLogger("huggingface_hub.utils._http")
    level = requests.level
    requests.setLevel(logging.ERROR)
    try:
        yield
    finally:
        requests.setLevel(level)
        if hidden:
            enable_progress_bars()


def _route(*libraries: str) -> None:
    """Send what libraries log through the root logger; each has a handler of its own from when it was imported."""
    for name in libraries:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
