"""Which line of an engine's stderr is told as its last."""

from __future__ import annotations

import pytest

from foreword.engine.last_line import LastLine

INFO = '{"event": "loaded", "level": "info", "logger": "a"}\n'


def last(*pieces: str) -> str:
    line = LastLine()
    for piece in pieces:
        line.feed(piece)
    return line.text


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ((), ""),
        (("library not found\n",), "library not found"),
        (("CUDA er", "ror\n\n  \n"), "CUDA error"),
        (("no line end",), "no line end"),
        (("CUDA error\n", INFO), "CUDA error"),
        ((INFO,), ""),
        ((INFO[:20], INFO[20:]), ""),
        (("CUDA error\n", INFO.replace("info", "debug")), "CUDA error"),
        (('{"event": "no room", "level": "error"}\n', INFO), '{"event": "no room", "level": "error"}'),
        (("broken\n2026-01-01T00:00:00Z [info     ] loaded   a=1\n",), "broken"),
        (("broken\n\x1b[2m2026-01-01T00:00:00Z\x1b[0m [\x1b[32m\x1b[1minfo     \x1b[0m] loaded\n",), "broken"),
        (("2026-01-01T00:00:00Z [error    ] no room\n",), "2026-01-01T00:00:00Z [error    ] no room"),
        (('{"level": broken\n', "[1]\n"), "[1]"),
        (("  5%\r 10%\rkilled",), "killed"),
        (("x" * 5_000 + "end\n",), "x" * 1_997 + "end"),
    ],
)
def test_it_is_the_last_that_is_no_news_of_all_being_well(pieces: tuple[str, ...], text: str) -> None:
    assert last(*pieces) == text
