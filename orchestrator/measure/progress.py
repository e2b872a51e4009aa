"""What happened since the last look, in one line for the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Totals(NamedTuple):
    """Counts since the start."""

    results: int = 0
    """Blocks and plain steps that were answered."""
    verifications: int = 0
    """Blocks with candidates among them."""
    offered: int = 0
    kept: int = 0
    late: int = 0


class Progress:
    """Turns totals into rates, of the time since the last look."""

    def __init__(self, now_us: int) -> None:
        self._then = Totals()
        self._then_us = now_us

    def look(self, totals: Totals, now_us: int) -> Mapping[str, float | int] | None:
        """Return what a log line says, None if nothing happened."""
        gained = Totals(*(now - then for now, then in zip(totals, self._then, strict=True)))
        seconds = (now_us - self._then_us) / 1e6
        self._then, self._then_us = totals, now_us
        if not gained.results or seconds <= 0:
            return None
        line: dict[str, float | int] = {
            "tokens_per_s": round((gained.results + gained.kept) / seconds, 1),
            "drafted_per_s": round(gained.offered / seconds, 1),
            "accepted_per_s": round(gained.kept / seconds, 1),
            "late_blocks": gained.late,
        }
        if gained.verifications:
            line["acceptance_length"] = round(1 + gained.kept / gained.verifications, 2)
            line["acceptance_rate"] = round(gained.kept / gained.offered, 3)
        return line
