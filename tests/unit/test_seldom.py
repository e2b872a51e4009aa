"""Lines that a peer brings about are seldom, and tell of those that were left out."""

from __future__ import annotations

from foreword.telemetry.seldom import Seldom


def test_one_line_in_a_while_tells_of_the_others() -> None:
    now_s = 0.0
    seldom = Seldom(10.0, lambda: now_s)
    said = []
    for second in range(25):
        now_s = float(second)
        said.append(seldom.due())
    assert [line for line in said if line is not None] == [0, 9, 9]
    assert [second for second, line in enumerate(said) if line is not None] == [0, 10, 20]
