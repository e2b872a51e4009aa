"""A service with a bug: `python -m tests.e2e.planted BUG KIND FLAGS` is `foreword serve KIND FLAGS` with it planted.

A bug names the function that the engine process starts with, in the place of the service's own; an orchestrator has no
engine, there it names what is called before it serves.
"""

from __future__ import annotations

import runpy
import sys
from itertools import accumulate
from typing import Any

from foreword.protocol.words import Rule

BUGS = {
    "draft": ("rounds_after_sampling", "lies_about_its_law"),
    "target": ("forgets_the_residual_mass", "samples_afresh"),
    "orchestrator": ("moves_without_the_last_token",),
}


def rounds_after_sampling(channel: Any, config: Any) -> None:
    """Draft: candidates come from the unrounded law, and the rounded one is sent."""
    from draft_service.drafters import choosing, model
    from foreword.laws.sampling import sample_uniform

    honest = choosing.choose

    def choose(how: Any, law: Any, keys: Any, *, position: int, number: int, style: Any) -> Any:
        chosen = honest(how, law, keys, position=position, number=number, style=style)
        if chosen.counts is None:
            return chosen
        token = sample_uniform(law, number / 2.0**64)
        # A candidate off its own support would be refused by the target; the bug has to be one that goes unnoticed.
        return choosing.Chosen(token if token in chosen.counts.ids else chosen.token, chosen.counts)

    model.choose = choose
    _run_draft(channel, config)


def lies_about_its_law(channel: Any, config: Any) -> None:
    """Draft: writes the likeliest token and says that it has drawn it."""
    from draft_service.drafters import choosing, model

    honest = choosing.choose

    def choose(how: Any, law: Any, keys: Any, *, position: int, number: int, style: Any) -> Any:
        chosen = honest(how, law, keys, position=position, number=number, style=style)
        if chosen.counts is None:
            return chosen
        return choosing.Chosen(law.best if law.best in chosen.counts.ids else chosen.token, chosen.counts)

    model.choose = choose
    _run_draft(channel, config)


def forgets_the_residual_mass(channel: Any, settings: Any) -> None:
    """Target: under `block` the running ratio is taken for the acceptance probability, as h := P."""
    from dataclasses import replace

    from target_service.engine import judge

    honest = judge.gather

    def gather(rule: Rule, *arguments: Any, **named: Any) -> Any:
        evidence = honest(rule, *arguments, **named)
        if rule is not Rule.BLOCK or evidence.ratios is None:
            return evidence
        running = tuple(accumulate(evidence.ratios, lambda p, ratio: min(1.0, p * ratio), initial=1.0))
        return replace(evidence, acceptance=running[1:])

    judge.gather = gather
    _run_target(channel, settings)


def samples_afresh(channel: Any, settings: Any) -> None:
    """Target: a new sample after a mismatch under `match`, which favours what the draft writes."""
    from dataclasses import replace

    from foreword.acceptance.source import PhiloxSource
    from foreword.addresses.keys import verification_address
    from target_service.engine import judge

    honest = judge.gather

    def gather(
        rule: Rule, laws: Any, ids: Any, block_law: Any, *, keys: Any, round: int, base: int, source: Any
    ) -> Any:
        evidence = honest(rule, laws, ids, block_law, keys=keys, round=round, base=base, source=source)
        kept = sum(h == 1.0 for h in evidence.acceptance)
        if rule is not Rule.MATCH or kept == len(ids):
            return evidence
        (fresh,) = PhiloxSource().choose(keys.emit, [(verification_address(round, base, kept), laws[kept])])
        return replace(evidence, emit=(*evidence.emit[:kept], fresh, *evidence.emit[kept + 1 :]))

    judge.gather = gather
    _run_target(channel, settings)


def moves_without_the_last_token() -> None:
    """Orchestrator: a session that is opened again on another target has lost the token it was given last."""
    from dataclasses import replace

    from foreword.protocol.sequence import Sequence
    from orchestrator.core import session as core

    honest = core.open_target

    def open_target(session: Any, *rest: Any, **named: Any) -> Any:
        sequence = session.sequence
        if sequence.base:
            session = replace(session, sequence=Sequence.of(sequence.tokens[:-1], sequence.prompt_len))
        return honest(session, *rest, **named)

    core.open_target = open_target


def _run_draft(channel: Any, config: Any) -> None:
    from draft_service.engine.run import run

    run(channel, config)


def _run_target(channel: Any, settings: Any) -> None:
    from target_service.engine.run import serve

    serve(channel, settings)


def main(bug: str, kind: str, flags: list[str]) -> None:
    """Serve, with the bug where this kind of service has it."""
    if kind == "orchestrator" and bug in BUGS[kind]:
        moves_without_the_last_token()
    elif bug in BUGS.get(kind, ()):
        entry = f"{__spec__.name if __spec__ else 'tests.e2e.planted'}:{bug}"
        if kind == "draft":
            from draft_service import engine_host as host

            host._ENTRY = entry
        else:
            from target_service import service

            assert service.ENTRY  # what is replaced has to be what is used
            service.ENTRY = entry
    sys.argv = ["foreword", "serve", kind, *flags]
    runpy.run_module("foreword.cli.child", run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
