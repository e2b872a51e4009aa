"""The drafter that runs a causal LM or a synthetic one: a candidate a step for every session, in one forward pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from draft_service.core.state import Session
from draft_service.core.writing import Draw, Drawn
from draft_service.drafters.choosing import (
    Chosen,
    Manner,
    Spot,
    Style,
    choose,
    confidence,
    draft_parameters,
    manner,
    margin,
)
from draft_service.drafters.port import Abilities, CompareJob, DrawJob, ReadJob
from foreword.errors import ForewordError
from foreword.laws.law import Law
from foreword.laws.parameters import LawParameters
from foreword.laws.pipeline import LawRows, try_target_laws
from foreword.protocol.words import Rule
from foreword.runner.port import Logits, Rows, Runner


class ModelDrafter:
    """Drafts with a `Runner`; ids from `abilities.vocabulary_size` on are padding and are never drawn."""

    def __init__(self, runner: Runner, abilities: Abilities, style: Style) -> None:
        self._runner = runner
        self._abilities = abilities
        self._style = style

    @property
    def abilities(self) -> Abilities:
        """What it is and can do."""
        return self._abilities

    @property
    def resident_tokens(self) -> int:
        """Tokens cached over all slots."""
        return self._runner.resident_tokens

    def open(self, slot: int) -> None:
        """Start an empty slot."""
        self._runner.open(slot)

    def close(self, slot: int) -> None:
        """Free a slot."""
        self._runner.close(slot)

    def step(self, draws: Sequence[DrawJob], reads: Sequence[ReadJob]) -> list[Drawn | ForewordError]:
        """Draw one candidate for each session and read ahead for others, in one forward pass."""
        plans = [self._plan(job) for job in draws]
        batch = [
            self._rows(job.slot, job.draw.cached, job.draw.rows, need=1, temperature=parameters.temperature)
            for job, (_, parameters) in zip(draws, plans, strict=True)
        ]
        batch += [self._rows(job.slot, job.read.cached, job.read.rows, need=0) for job in reads]
        logits = self._runner.forward(batch)
        laws = try_target_laws(
            [
                self._law_rows(job.session, parameters, rows, position=job.draw.position)
                for job, (_, parameters), rows in zip(draws, plans, logits, strict=False)
            ]
        )
        return [
            found if isinstance(found, ForewordError) else self._drawn(job, how, found[0], rows)
            for job, (how, _), found, rows in zip(draws, plans, laws, logits, strict=False)
        ]

    def compare(self, jobs: Sequence[CompareJob]) -> list[int | ForewordError]:
        """Guess as under `match`, or the likeliest token where there is no coupling: nothing guessed is ever sent."""
        plans = [self._guessing(job.session) for job in jobs]
        logits = self._runner.forward(
            [
                self._rows(job.slot, c.cached, c.rows, need=c.count, temperature=parameters.temperature)
                for job, (_, parameters) in zip(jobs, plans, strict=True)
                for c in (job.compare,)
            ]
        )
        laws = try_target_laws(
            [
                self._law_rows(job.session, parameters, rows, position=job.compare.position, wanted=job.compare.wanted)
                for job, (_, parameters), rows in zip(jobs, plans, logits, strict=True)
            ]
        )
        return [
            found if isinstance(found, ForewordError) else self._agreed(job, how, found)
            for job, (how, _), found in zip(jobs, plans, laws, strict=True)
        ]

    def _plan(self, job: DrawJob) -> tuple[Manner, LawParameters]:
        session = job.session
        how = manner(job.draw.rule, session.law, session.keys, self._style)
        return how, draft_parameters(how, session.law, self._style)

    def _guessing(self, session: Session) -> tuple[Manner, LawParameters]:
        how = manner(Rule.MATCH, session.law, session.keys, self._style)
        # A number drawn for a guess would be spent; only the target's own may be looked at again.
        how = how if how is Manner.COUPLED else Manner.LIKELIEST
        return how, draft_parameters(how, session.law, self._style)

    def _rows(self, slot: int, cached: int, rows: tuple[int, ...], *, need: int, temperature: float = 1.0) -> Rows:
        self._runner.truncate(slot, cached)
        return Rows(slot, rows, need, temperature)

    def _law_rows(
        self,
        session: Session,
        parameters: LawParameters,
        logits: Logits,  # float32[m, V]
        *,
        position: int,
        wanted: tuple[int, ...] = (),
    ) -> LawRows:
        prompt: tuple[int, ...] = ()
        output: tuple[int, ...] = ()
        if parameters.penalizes:
            start = session.sequence.prompt_len
            prompt = session.sequence.tokens[:start]
            output = session.context_from(start)[:position]
        return LawRows(
            parameters,
            logits,
            prompt=prompt,
            output=output,
            candidates=wanted,
            first_position=position,
            vocabulary_size=self._abilities.vocabulary_size,
        )

    def _drawn(self, job: DrawJob, how: Manner, law: Law, logits: Logits) -> Drawn:
        draw, session = job.draw, job.session
        chosen = choose(how, law, session.keys, spot=_spot(draw), style=self._style)
        laws = None if chosen.counts is None else (chosen.counts,)
        return Drawn((chosen.token,), laws, confidence=self._confidence(job, how, law, chosen, logits))

    def _confidence(self, job: DrawJob, how: Manner, law: Law, chosen: Chosen, logits: Logits) -> float:
        if job.session.stop_threshold == 0.0:
            return 1.0  # nobody asks, and finding the two largest of a row is not free
        if how is Manner.LIKELIEST:
            second, first = np.partition(logits[0, : self._abilities.vocabulary_size], -2)[-2:]
            return confidence(float(first - second))
        return confidence(margin(how, law, chosen, keys=job.session.keys, position=job.draw.position))

    def _agreed(self, job: CompareJob, how: Manner, laws: list[Law]) -> int:
        first, keys = job.compare.position, job.session.keys
        guesses = (
            choose(how, law, keys, spot=Spot(first + i, 0, 0), style=self._style).token for i, law in enumerate(laws)
        )
        return sum(guess == token for guess, token in zip(guesses, job.compare.wanted, strict=True))


def _spot(draw: Draw) -> Spot:
    return Spot(draw.position, draw.round, draw.digest)
