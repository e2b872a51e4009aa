"""The table that says how the size of blocks was chosen."""

from __future__ import annotations

import io

from rich.console import Console

from foreword.cli.explain import show_choice
from foreword.protocol.generation import GammaChoice, Timings


def test_what_a_size_brings_less_what_others_lose_may_be_negative_and_is_called_net() -> None:
    text = io.StringIO()
    choice = GammaChoice(0, "best", fixed_us=1e4, survival=(0.5,), tokens_per_s=(40.0, -3.25))
    show_choice(Console(file=text, width=300), Timings(gamma=choice))
    lines = [line.split() for line in text.getvalue().splitlines()]
    assert lines[-3][-2:] == ["net", "tokens/s"]
    assert lines[-1] == ["1", "0.500", "-3.2"]
