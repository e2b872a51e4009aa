"""How often a draft had prepared for what came, from its metrics."""

from __future__ import annotations

from loadtest.bench.scrape import scraped


def outcomes(port: int) -> dict[tuple[str, str], float]:
    """Return a draft's own counts of outcomes by fate and ending, from its port of metrics."""
    found = {}
    for line in scraped(port).splitlines():
        if line.startswith("foreword_draft_outcomes_total{"):
            labels, _, value = line.partition("{")[2].rpartition("} ")
            pairs = dict(pair.split("=", 1) for pair in labels.split(","))
            found[pairs["fate"].strip('"'), pairs["ending"].strip('"')] = float(value)
    return found


def between(before: dict[tuple[str, str], float], after: dict[tuple[str, str], float]) -> dict[str, tuple[int, int]]:
    """Return by ending (a correction, or the token after a block that was kept whole) hits, and outcomes in all."""

    def grown(fate: str, ending: str) -> int:
        return round(after.get((fate, ending), 0.0) - before.get((fate, ending), 0.0))

    endings = sorted({ending for _, ending in after})
    counts = {ending: (grown("hit", ending), grown("hit", ending) + grown("miss", ending)) for ending in endings}
    return {ending: count for ending, count in counts.items() if count[1]}
