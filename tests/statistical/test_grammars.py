"""A grammar is part of the target law at every position of a block; bugs of its mask are planted, and seen."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from draft_service.drafters.masks import DraftMasks
from foreword.errors import InvalidField
from foreword.grammars.library import LibraryGrammars
from foreword.laws.counts import counts_law, to_counts
from foreword.laws.edits import TokenMask
from foreword.laws.law import Law
from foreword.laws.parameters import Grammar, LawParameters
from foreword.laws.pipeline import LawRows, target_laws
from foreword.protocol.messages import SparseCounts
from foreword.protocol.words import Rule
from tests.statistical.enumeration import Outcome, Session, State, Style, Tables, Text, text_law
from tests.statistical.test_exact_rounds import EXACT, PAIRS, up_to
from tests.unit.grammars.kit import Letters

PIECES = (b"a", b"b", b"ab")
DEAD = len(PIECES)
"""Stands for "nothing may come here" in a law, and for the end of a text with an error in a text."""
SEEN = 1e-3
NEVER_OVER = Grammar.regex("(aab|ba|b{3})*")
WITH_DEAD_ENDS = Grammar.regex("(ab|baaa|bbc)*")
"""No piece holds a c: behind bb nothing may come."""

every_rule = pytest.mark.parametrize(("rule", "style"), PAIRS)
every_grammar = pytest.mark.parametrize("grammar", [NEVER_OVER, WITH_DEAD_ENDS], ids=["without an end", "dead ends"])


class ThreePieces(Letters):
    """A tokenizer of `PIECES`."""

    vocabulary_size = len(PIECES)
    eos_ids = ()
    special_ids = frozenset()

    def token_bytes(self, token: int) -> bytes:
        return PIECES[token]


@cache
def mask_of(grammar: Grammar) -> TokenMask:
    """Return the one mask that is asked about all texts, as a session's is about its own and all candidates."""
    return LibraryGrammars(ThreePieces(), vocabulary_size=len(PIECES)).mask(grammar, stop_ids=())


Seen = Callable[[TokenMask, State], TokenMask | None]
"""What a target makes of a mask at a block: a bug, or nothing."""


@dataclass(frozen=True, slots=True)
class FirstOnly:
    """A planted bug: the mask holds at the first position of a block alone."""

    mask: TokenMask
    length: int

    def allowed(self, output: Sequence[int]) -> NDArray[np.bool_] | None:
        return self.mask.allowed(output) if len(output) == self.length else None


@dataclass(frozen=True, slots=True)
class Behind:
    """A planted bug: the mask is that of the position before."""

    mask: TokenMask

    def allowed(self, output: Sequence[int]) -> NDArray[np.bool_] | None:
        return self.mask.allowed(output[:-1])


@dataclass(frozen=True, slots=True)
class Masked(Tables):
    """Tables whose target follows a grammar."""

    grammar: Grammar = NEVER_OVER

    def target(self, text: Text) -> Law:
        return block_laws(self, text, (), mask_of(self.grammar))[0]


@cache
def block_laws(tables: Masked, text: Text, ids: Text, mask: TokenMask | None) -> list[Law]:
    """Return the laws behind a text and each candidate, by the production pipeline and all in one."""
    if DEAD in text:
        return [Law.one_hot(DEAD)] * (len(ids) + 1)
    contexts = [(*text, *ids[:i]) for i in range(len(ids) + 1)]
    logits = [np.random.default_rng([tables.seed, 1, *one, 99]).standard_normal(len(PIECES)) for one in contexts]
    rows = LawRows(
        tables.parameters,
        np.array(logits, dtype=np.float32),
        output=text,
        candidates=ids,
        first_position=len(text),
        mask=mask,
    )
    try:
        return target_laws([rows])[0]
    except InvalidField:  # nothing may come where the text stands: it ended with an error
        return [Law.one_hot(DEAD)] * (len(ids) + 1)


def masked_by(grammar: Grammar, seen: Seen) -> Callable[[Tables, State, Text], list[Law]]:
    """Return how a target makes the laws of a block."""

    def laws(tables: Tables, state: State, ids: Text) -> list[Law]:
        assert isinstance(tables, Masked)
        return block_laws(tables, state.text, ids, seen(mask_of(grammar), state))

    return laws


def session(rule: Rule, style: Style, grammar: Grammar, *, horizon: int, seen: Seen, **changes: object) -> Session:
    """Return a session with blocks of up to three candidates."""
    tables = Masked(len(PIECES), seed=2, grammar=grammar)
    return Session(
        lambda _: rule,
        style,
        replace(tables, **changes),
        gamma=up_to(3, horizon),
        laws=masked_by(grammar, seen),
    )


def distance(one: Session, horizon: int) -> float:
    """Return the total variation distance of texts, those that end with an error included."""
    law = text_law(one, horizon)
    texts = itertools.product(range(DEAD + 1), repeat=horizon)
    return 0.5 * sum(abs(law.get(text, 0.0) - one.tables.probability(text)) for text in texts)


def honest(mask: TokenMask, state: State) -> TokenMask:
    return mask


@every_rule
@every_grammar
def test_a_grammar_is_exact_at_every_position(rule: Rule, style: Style, grammar: Grammar) -> None:
    assert distance(session(rule, style, grammar, horizon=5, seen=honest), 5) < EXACT


@every_rule
@pytest.mark.parametrize(
    "parameters",
    [LawParameters(temperature=0.0), LawParameters(top_k=2), LawParameters(frequency_penalty=0.7, temperature=0.8)],
    ids=["greedy", "top-k", "penalties"],
)
def test_a_grammar_among_other_parameters(rule: Rule, style: Style, parameters: LawParameters) -> None:
    one = session(rule, style, WITH_DEAD_ENDS, horizon=4, seen=honest, parameters=parameters)
    assert distance(one, 4) < EXACT


def test_some_texts_end_in_an_error() -> None:
    law = text_law(session(Rule.BLOCK, Style.COUNTS, WITH_DEAD_ENDS, horizon=5, seen=honest), 5)
    assert 0.01 < sum(weight for text, weight in law.items() if DEAD in text) < 0.99


@every_rule
def test_a_mask_at_the_first_position_of_a_block_alone(rule: Rule, style: Style) -> None:
    def seen(mask: TokenMask, state: State) -> TokenMask:
        return FirstOnly(mask, len(state.text))

    assert distance(session(rule, style, NEVER_OVER, horizon=5, seen=seen), 5) > SEEN


@every_rule
def test_a_mask_of_the_wrong_position_after_a_refusal(rule: Rule, style: Style) -> None:
    def refused(outcome: Outcome) -> int:
        return int(outcome.kept < len(outcome.ids))

    def seen(mask: TokenMask, state: State) -> TokenMask:
        return Behind(mask) if state.seen and state.text else mask

    one = replace(session(rule, style, NEVER_OVER, horizon=5, seen=seen), note=refused)
    assert distance(one, 5) > SEEN
    right = replace(session(rule, style, NEVER_OVER, horizon=5, seen=honest), note=refused)
    assert distance(right, 5) < EXACT


def test_an_error_behind_a_candidate_must_not_be_that_of_the_block() -> None:
    """A planted bug: a block that looks into a dead end is refused whole, whether its text goes there or not."""

    def laws(tables: Tables, state: State, ids: Text) -> list[Law]:
        assert isinstance(tables, Masked)
        found = block_laws(tables, state.text, ids, mask_of(WITH_DEAD_ENDS))
        dead = any(law.size == 1 and law.token_at(0) == DEAD for law in found)
        return [Law.one_hot(DEAD)] * len(found) if dead else found

    one = session(Rule.BLOCK, Style.COUNTS, WITH_DEAD_ENDS, horizon=5, seen=honest)
    assert distance(replace(one, laws=laws), 5) > SEEN


@dataclass(frozen=True, slots=True)
class MaskedDraft(Masked):
    """Tables whose draft follows the grammar as well, by what masks the logits of draft models."""

    def draft(self, text: Text) -> Law:
        return within(self, text)


@cache
def within(tables: Masked, text: Text) -> Law:
    """Return the draft's law within the grammar; all of it where nothing may come, since these blocks go on."""
    free = Masked.draft(tables, text)
    logits = np.log(free.probabilities)[None].astype(np.float32)
    rows = None if DEAD in text else DraftMasks(None).restricted(mask_of(tables.grammar), logits, text, ())
    return free if rows is None else target_laws([LawRows(LawParameters(), rows)])[0][0]


def drafted_within(rule: Rule, style: Style, grammar: Grammar) -> Session:
    """Return a session whose target and draft follow a grammar."""
    one = session(rule, style, grammar, horizon=5, seen=honest)
    return replace(one, tables=MaskedDraft(len(PIECES), seed=2, grammar=grammar))


@every_rule
@every_grammar
def test_a_draft_within_the_grammar_is_exact(rule: Rule, style: Style, grammar: Grammar) -> None:
    assert distance(drafted_within(rule, style, grammar), 5) < EXACT


@pytest.mark.parametrize("rule", [Rule.TOKEN, Rule.BLOCK])
def test_candidates_within_the_grammar_that_claim_another_law(rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted bug: candidates are drawn within the grammar, and counts of the whole law go along."""

    def claimed(tables: Masked, text: Text, bits: int) -> tuple[SparseCounts, Law]:
        drawn, free = tables.draft(text), Masked.draft(tables, text)
        return to_counts(free, bits=bits, mass=1.0), counts_law(to_counts(drawn, bits=bits, mass=1.0))

    monkeypatch.setattr("tests.statistical.enumeration._rounded", claimed)
    assert distance(drafted_within(rule, Style.COUNTS, NEVER_OVER), 5) > SEEN
