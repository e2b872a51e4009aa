"""How the size of blocks was chosen, as a table for people."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from foreword.protocol.generation import GammaChoice, Timings

_WHY = {
    "fixed": "because the request or the server says so",
    "start": "because nothing was measured yet",
    "unused": "because no block was asked for: there was no draft yet, or nothing left to write",
    "best": "because it is best",
    "kept": "because no other is clearly better",
    "probe": "to look whether blocks pay by now",
}


def show_choice(console: Console, timings: Timings) -> None:
    """Write what was chosen last, from which estimates, and what the alternatives would have brought."""
    choice = timings.gamma
    if choice is None:
        console.print("γ: the server does not say how it was chosen", highlight=False)
        return
    console.print(f"γ = {choice.gamma} in the end, {_WHY.get(choice.why, choice.why)}", highlight=False)
    used = ", ".join(f"{count} with γ {gamma}" for gamma, count in enumerate(timings.results_by_gamma) if count)
    console.print(f"results: {used or 'none'}", highlight=False)
    if choice.fixed_us is not None:
        console.print(_costs(choice), highlight=False)
        console.print(_alternatives(choice))


def _costs(choice: GammaChoice) -> str:
    fixed_us = choice.fixed_us or 0.0
    return (
        f"a round takes {fixed_us / 1000:.2f} ms and {choice.candidate_us / 1000:.2f} ms for each candidate; "
        f"a token without draft {choice.plain_us / 1000:.2f} ms; a row costs {choice.price:.3f} tokens; "
        f"blocks end under a survival of {_survival(choice.threshold)}, "
        f"looked-up ones under {_survival(choice.lookup_threshold)}"
    )


def _survival(bound: float) -> str:
    return f"{bound:.2f}" if bound <= 1.0 else "1 (no candidate is worth its time)"


def _alternatives(choice: GammaChoice) -> Table:
    table = Table("γ", "survival of the last", "net tokens/s", box=None, pad_edge=False)
    for gamma, rate in enumerate(choice.tokens_per_s):
        survival = f"{choice.survival[gamma - 1]:.3f}" if 0 < gamma <= len(choice.survival) else ""
        style = "bold" if gamma == choice.gamma else ""
        table.add_row(str(gamma), survival, f"{rate:.1f}", style=style)
    return table
