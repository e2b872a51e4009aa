"""The drafter that runs a causal LM or a synthetic one: a candidate a step for every session, in one forward pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from draft_service.ahead.forecast import RANKS, Outlook
from draft_service.core.state import Session, Writing
from draft_service.core.writing import Drawn
from draft_service.drafters.choosing import Chosen, Manner, MatchDraw, Style, choose, margin
from draft_service.drafters.draws import Draws
from draft_service.drafters.foresight import LookJob
from draft_service.drafters.leads import Leads
from draft_service.drafters.masks import DraftMasks
from draft_service.drafters.pen import Pen
from draft_service.drafters.plan import Plan, among_likeliest, argmax, plan_of
from draft_service.drafters.port import Abilities, CompareJob, ReadJob
from draft_service.drafters.ranking import Ranking, rank_law, rank_logits, ranked_plan, without
from draft_service.drafters.vocabulary import VocabularyMap
from foreword.addresses.keys import draft_address
from foreword.addresses.philox import integers_sought
from foreword.errors import ForewordError
from foreword.grammars.making import MaskMaker
from foreword.laws.law import Ids, Law
from foreword.laws.pipeline import LawRows, try_target_laws
from foreword.protocol.messages import Tokens
from foreword.protocol.words import Rule
from foreword.runner.port import Logits, Rows, Runner
from foreword.values import replace


class ModelDrafter:
    """Drafts with a `Runner`; ids from `abilities.vocabulary_size` on are padding and are never drawn.

    With a vocabulary map the runner's logits are those of the map's columns; texts are in ids all the same.
    """

    def __init__(
        self,
        runner: Runner,
        abilities: Abilities,
        style: Style,
        vocabulary: VocabularyMap | None = None,
        *,
        draws: Draws | None = None,
        masks: MaskMaker | None = None,
    ) -> None:
        """Take over `runner`; `draws` are made from logits at once where nothing edits them, `masks` restricts them."""
        self._runner = runner
        self._abilities = abilities
        self._style = style
        self._vocabulary = vocabulary
        self._width = abilities.vocabulary_size if vocabulary is None else len(vocabulary.ids)
        self._draws = draws
        self._ids: Ids = np.arange(self._width or 0, dtype=np.int32) if vocabulary is None else vocabulary.ids
        self._masks = DraftMasks(masks, None if vocabulary is None else vocabulary.ids)
        self._plans: dict[int, Plan] = {}
        self._leads = Leads()

    @property
    def abilities(self) -> Abilities:
        """What it is and can do."""
        return self._abilities

    @property
    def resident_tokens(self) -> int:
        """Tokens cached over all slots."""
        return self._runner.resident_tokens

    def open(self, slot: int, *, salt: bytes = b"") -> None:
        """Start an empty slot."""
        self._runner.open(slot, salt=salt)

    def adopt(self, slot: int, tokens: Tokens) -> int:
        """Let an empty slot begin with what the model has read of `tokens` for this session's salt."""
        return self._runner.adopt(slot, tokens)

    def close(self, slot: int) -> None:
        """Free a slot."""
        self._plans.pop(slot, None)
        self._leads.forget(slot)
        self._masks.forget(slot)
        self._runner.close(slot)

    def step(self, pens: Sequence[Pen], reads: Sequence[ReadJob]) -> list[Drawn | ForewordError]:
        """Draw one candidate for each session and read ahead for others, in one forward pass."""
        plans, batch = self._prepared(pens)
        for job in reads:
            self._runner.truncate(job.slot, job.read.cached)
            batch.append(Rows(job.slot, job.read.rows, 0))
        return self._draw(pens, plans, self._runner.forward(batch)[: len(pens)])

    def branch(self, source: int, slot: int, length: int, *, salt: bytes = b"") -> None:
        """Open a branch that begins with the first `length` tokens of another slot."""
        self._runner.open(slot, salt=salt)
        self._runner.fork(source, slot, length)
        self._masks.branch(source, slot)

    def look_ahead(
        self, pens: Sequence[Pen], jobs: Sequence[LookJob]
    ) -> tuple[list[Drawn | ForewordError], list[Outlook | ForewordError]]:
        """Draw one candidate for each branch and look behind the candidates of blocks, in one forward pass."""
        plans, batch = self._prepared(pens)
        looks = [self._plan_of(_written(job.session).rule, job.session, self._style) for job in jobs]
        for job, plan in zip(jobs, looks, strict=True):
            self._runner.truncate(job.slot, job.cached)
            need = len(_written(job.session).ids) + 1
            batch.append(Rows(job.slot, job.rows, need, plan.parameters.temperature))
        logits = self._runner.forward(batch)
        drawn = self._draw(pens, plans, logits[: len(pens)])
        return drawn, [
            self._outlook(job, plan, rows) for job, plan, rows in zip(jobs, looks, logits[len(pens) :], strict=True)
        ]

    def take_over(self, slot: int, branch: int, session: Session, prepared: Session, *, shipped: bool) -> bool:
        """Let a session's slot hold what the branch's does; its estimates go on with the branch's block."""
        self._leads.take_over(slot, branch, session.context_from)
        self._runner.truncate(slot, 0)
        self._runner.fork(branch, slot, self._runner.length(branch))
        self.close(branch)
        return True

    def compare(self, jobs: Sequence[CompareJob]) -> list[int | ForewordError]:
        """Count what `guessed` says."""
        return [found if isinstance(found, ForewordError) else sum(found) for found in self.guessed(jobs)]

    def guessed(self, jobs: Sequence[CompareJob]) -> list[tuple[bool, ...] | ForewordError]:
        """Return for each wanted token of a job whether it was guessed.

        Guesses are as under `match`, or the likeliest token where there is no coupling: nothing guessed is ever sent.
        """
        plans = [self._guessing(job.session) for job in jobs]
        batch: list[Rows] = []
        for job, plan in zip(jobs, plans, strict=True):
            work = job.compare
            self._runner.truncate(job.slot, work.cached)
            batch.append(Rows(job.slot, work.rows, work.count, plan.parameters.temperature))
        logits = [
            self._foreseeable(job.slot, job.session, rows, position=job.compare.position, wanted=job.compare.wanted)
            for job, rows in zip(jobs, self._runner.forward(batch), strict=True)
        ]
        found = [self._guessed_at_once(*one) for one in zip(jobs, plans, logits, strict=True)]
        others = [i for i, flags in enumerate(found) if flags is None]
        lawful = self._guessed_lawful([(jobs[i], plans[i], logits[i]) for i in others])
        for i, flags in zip(others, lawful, strict=True):
            found[i] = flags
        return [flags for flags in found if flags is not None]

    def _guessed_at_once(self, job: CompareJob, plan: Plan, rows: Logits) -> tuple[bool, ...] | ForewordError | None:
        key, work, flags = job.session.keys.match, job.compare, []
        for number, token in enumerate(work.wanted):
            row = rows[number, : self._width]
            guess = self._at_once(plan, row, key, position=work.position + number, leads=False)
            if guess is None:
                return None
            flags.append(guess[0] == token)
        return tuple(flags)

    def _guessed_lawful(
        self, work: Sequence[tuple[CompareJob, Plan, Logits]]
    ) -> list[tuple[bool, ...] | ForewordError]:
        rows = [
            self._law_rows(job.session, plan, one, position=job.compare.position, wanted=job.compare.wanted)
            for job, plan, one in work
        ]
        return [
            laws if isinstance(laws, ForewordError) else _agreed(job, plan, laws)
            for (job, plan, _), laws in zip(work, self._laws(rows), strict=True)
        ]

    def _prepared(self, pens: Sequence[Pen]) -> tuple[list[Plan], list[Rows]]:
        """Return how pens draw, and their part of a pass."""
        plans = [self._plan(pen) for pen in pens]
        batch: list[Rows] = []
        for pen, plan in zip(pens, plans, strict=True):
            self._leads.begin(pen)
            if not pen.ids:  # the first draw after a message: what it brought may have cut the context
                self._runner.truncate(pen.slot, pen.cached)
                self._runner.commit(pen.slot, pen.session.sequence.tokens)
            batch.append(Rows(pen.slot, pen.rows, 1, plan.parameters.temperature))
        return plans, batch

    def _outlook(self, job: LookJob, plan: Plan, logits: Logits) -> Outlook | ForewordError:
        """Return what the draft would say after every candidate of a block; `logits` is float32 [γ + 1, V]."""
        session, writing = job.session, _written(job.session)
        ids, base, most = writing.ids, writing.base, RANKS + 1
        logits = self._foreseeable(job.slot, session, logits, position=base, wanted=ids)
        found: list[Ranking | None] = []
        if plan.manner is Manner.LIKELIEST and not plan.edits(base):
            found = [rank_logits(row[: self._width], self._ids, most=most) for row in logits]
        if not found or None in found:
            by = ranked_plan(plan)
            (laws,) = self._laws([self._law_rows(session, by, logits, position=base, wanted=ids)])
            if isinstance(laws, ForewordError):
                return laws
            key = session.keys.match
            found = [rank_law(by, law, key, base + place, most=most) for place, law in enumerate(laws)]
        rankings = [ranking for ranking in found if ranking is not None]
        others = [without(tokens, candidate, most=RANKS) for (tokens, _), candidate in zip(rankings, ids, strict=False)]
        return Outlook((*others, rankings[-1][0][:RANKS]), tuple(lead for _, lead in rankings[:-1]))

    def _draw(self, pens: Sequence[Pen], plans: list[Plan], logits: list[Logits]) -> list[Drawn | ForewordError]:
        """Draw from logits where that is all there is to it, and go through the law for the others."""
        drawn: list[Drawn | ForewordError] = []
        others: list[int] = []
        restricted = [
            self._restricted(pen.slot, pen.session, rows, position=pen.position, drawn=pen.ids)
            for pen, rows in zip(pens, logits, strict=True)
        ]
        for i, (pen, plan, rows) in enumerate(zip(pens, plans, restricted, strict=True)):
            if rows is None:  # what comes behind candidates that go nowhere is of no use
                drawn.append(Drawn((), None, stop=True))
                continue
            found = self._chosen_at_once(pen, plan, rows[0, : self._width])
            if found is None:
                others.append(i)
                drawn.append(Drawn((), None))
                continue
            certain = self._leads.estimate(pen, found.token, found.lead) if pen.threshold else 1.0
            counts = None if found.counts is None else (found.counts,)
            drawn.append(Drawn((found.token,), counts, confidence=certain))
        if others:
            pens, plans = [pens[i] for i in others], [plans[i] for i in others]
            lawful = self._draw_lawful(pens, plans, [rows for i in others if (rows := restricted[i]) is not None])
            for i, one in zip(others, lawful, strict=True):
                drawn[i] = one
        return drawn

    def _restricted(
        self,
        slot: int,
        session: Session,
        logits: Logits,
        *,
        position: int,
        drawn: Tokens = (),
        wanted: Tokens = (),
    ) -> Logits | None:
        """Return rows as the session's grammar leaves them; None where it leaves nothing of the first."""
        mask = self._masks.of(slot, session.law)
        if mask is None:
            return logits
        output = (session.context_from(session.sequence.prompt_len) + drawn)[:position]
        return self._masks.restricted(mask, logits, output, wanted)

    def _foreseeable(self, slot: int, session: Session, logits: Logits, *, position: int, wanted: Tokens) -> Logits:
        """Return the rows behind an output position and each wanted token, restricted as far as the grammar says."""
        rows = self._restricted(slot, session, logits, position=position, wanted=wanted)
        return logits if rows is None else rows

    def _chosen_at_once(self, pen: Pen, plan: Plan, row: Logits) -> Chosen | None:
        """Return a candidate of one row where no law has to be made for it, else None."""
        if plan.manner is not Manner.COUNTED or self._draws is None:
            key, leads = pen.session.keys.match, pen.threshold > 0
            found = self._at_once(plan, row, key, position=pen.position, leads=leads)
            return None if found is None else Chosen(found[0], None, found[1])
        if plan.edits(pen.position):
            return None
        style, (number,) = self._style, _numbers([pen], [plan])
        counted = self._draws.counted(
            row,
            self._ids,
            plan.parameters,
            number,
            bits=style.total_bits,
            mass=style.support_mass,
            cap=style.support_max,
        )
        return None if counted is None else Chosen(*counted)

    def _at_once(
        self, plan: Plan, row: Logits, key: bytes | None, *, position: int, leads: bool
    ) -> tuple[int, float] | None:
        """Return the token of one row and its lead where no law has to be made for them, else None."""
        if plan.edits(position):
            return None
        if plan.manner is Manner.LIKELIEST:
            token = self._likeliest(row)
            return None if token is None else (token, self._lead(row) if leads else 0.0)
        if plan.manner is not Manner.COUPLED or self._draws is None or key is None:
            return None
        return self._draws.coupled(row, self._ids, plan.parameters, key, position)

    def _draw_lawful(self, pens: Sequence[Pen], plans: list[Plan], logits: list[Logits]) -> list[Drawn | ForewordError]:
        rows = [
            self._law_rows(pen.session, plan, one, position=pen.position, drawn=pen.ids)
            for pen, plan, one in zip(pens, plans, logits, strict=True)
        ]
        results: list[Drawn | ForewordError] = []
        for pen, plan, laws, number, one in zip(
            pens, plans, self._laws(rows), _numbers(pens, plans), logits, strict=True
        ):
            if isinstance(laws, ForewordError):
                results.append(laws)
                continue
            keys, position = pen.session.keys, pen.position
            chosen = choose(plan.manner, laws[0], keys, position=position, number=number, style=self._style)
            certain = 1.0
            if pen.threshold:
                likeliest = plan.manner is Manner.LIKELIEST
                lead = self._lead(one[0, : self._width]) if likeliest else margin(plan.manner, laws[0], chosen)
                certain = self._leads.estimate(pen, chosen.token, lead)
            counts = None if chosen.counts is None else (chosen.counts,)
            results.append(Drawn((chosen.token,), counts, confidence=certain))
        return results

    def _likeliest(self, row: Logits) -> int | None:
        best = argmax(row)
        return best if best is None or self._vocabulary is None else self._vocabulary.id_of(best)

    def _laws(self, rows: Sequence[LawRows]) -> list[list[Law] | ForewordError]:
        """Return the laws over ids."""
        found, vocabulary = try_target_laws(rows), self._vocabulary
        if vocabulary is None:
            return found
        return [one if isinstance(one, ForewordError) else [vocabulary.law_of(law) for law in one] for one in found]

    def _lead(self, row: Logits) -> float:
        """Return by how many nats the likeliest token leads the next at temperature 1."""
        second, first = np.partition(row, -2)[-2:]
        return float(first - second)

    def _plan(self, pen: Pen) -> Plan:
        plan = self._plans.get(pen.slot)
        if plan is None or plan.rule is not pen.rule:
            plan = self._plan_of(pen.rule, pen.session, self._style)
            self._plans[pen.slot] = plan
        return plan

    def _guessing(self, session: Session) -> Plan:
        # A number of the draft's own would be spent by a guess; the target's may be looked at again.
        own = self._style.match_draw is MatchDraw.SAMPLED
        style = replace(self._style, match_draw=MatchDraw.ARGMAX) if own else self._style
        return self._plan_of(Rule.MATCH, session, style)

    def _plan_of(self, rule: Rule, session: Session, style: Style) -> Plan:
        plan = among_likeliest(plan_of(rule, session.law, session.keys, style), self._width or 0)
        if self._vocabulary is None:
            return plan
        return replace(plan, parameters=self._vocabulary.parameters_of(plan.parameters))

    def _law_rows(
        self,
        session: Session,
        plan: Plan,
        logits: Logits,  # float32[m, V]
        *,
        position: int,
        drawn: tuple[int, ...] = (),
        wanted: tuple[int, ...] = (),
    ) -> LawRows:
        prompt: tuple[int, ...] = ()
        output: tuple[int, ...] = ()
        if plan.parameters.penalizes:
            start = session.sequence.prompt_len
            prompt = session.sequence.tokens[:start]
            output = (session.context_from(start) + drawn)[:position]
        if self._vocabulary is not None:
            prompt, output = self._vocabulary.columns_of(prompt), self._vocabulary.columns_of(output)
            wanted = self._vocabulary.nearest_columns(wanted)
        return LawRows(
            plan.parameters,
            logits,
            prompt=prompt,
            output=output,
            candidates=wanted,
            first_position=position,
            vocabulary_size=self._width,
        )


def _written(session: Session) -> Writing:
    assert session.writing is not None
    return session.writing


_FIRST = np.zeros(1, dtype=np.int64)


def _numbers(pens: Sequence[Pen], plans: list[Plan]) -> list[int]:
    """Return the draft's own number for each candidate; 0 where none is drawn with, so that none is spent."""
    picks = [
        (pen.session.keys.draft, draft_address(pen.digest, pen.round, pen.position), _FIRST)
        for pen, plan in zip(pens, plans, strict=True)
        if plan.manner.has_numbers
    ]
    numbers = iter(integers_sought(picks))
    return [int(next(numbers)[0]) if plan.manner.has_numbers else 0 for plan in plans]


def _agreed(job: CompareJob, plan: Plan, laws: list[Law]) -> tuple[bool, ...]:
    keys, first, style = job.session.keys, job.compare.position, Style()
    guesses = (
        choose(plan.manner, law, keys, position=first + i, number=0, style=style).token for i, law in enumerate(laws)
    )
    return tuple(guess == token for guess, token in zip(guesses, job.compare.wanted, strict=True))
