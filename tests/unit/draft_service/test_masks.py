"""A draft model within a grammar: what it draws, from which law, and what it makes of texts that are no grammar's."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from draft_service.core.reading import Compare
from draft_service.core.state import Session
from draft_service.drafters.choosing import Style
from draft_service.drafters.foresight import LookJob
from draft_service.drafters.model import ModelDrafter
from draft_service.drafters.pen import Pen
from draft_service.drafters.port import Abilities, CompareJob
from draft_service.drafters.vocabulary import VocabularyMap
from foreword.addresses.keys import draft_address
from foreword.addresses.philox import first_integers
from foreword.errors import NotFound
from foreword.grammars.library import LibraryGrammars
from foreword.grammars.making import MaskMaker
from foreword.grammars.port import Grammars
from foreword.laws.counts import sample, to_counts
from foreword.laws.edits import TokenMask
from foreword.laws.parameters import Grammar, LawParameters
from foreword.laws.pipeline import LawRows, target_laws
from foreword.laws.sampling import sample_match
from foreword.models.synthetic import SyntheticModel
from foreword.models.synthetic_tokenizer import synthetic_tokenizer
from foreword.protocol.messages import Tokens
from foreword.protocol.words import Drafter, Rule
from foreword.runner.port import Logits, Rows
from foreword.testing.synthetic import Side, SyntheticRunner
from foreword.values import replace
from tests.unit.draft_service.models import KEYS, ordered, written
from tests.unit.grammars.kit import AtOnce, Never

MODEL = SyntheticModel(vocabulary=96, letters=1, eos=0.01, step_ms=0.0, context=256)
TOKENIZER = synthetic_tokenizer(MODEL)
END = 95
PATTERN = "([ab]x|c[0-9]{2}){8}!"
LAW = LawParameters(temperature=1.0, stop_ids=(END,), grammar=Grammar.regex(PATTERN))
GREEDY = replace(LAW, temperature=0.0)
PROMPT = TOKENIZER.encode("Go: ")
STYLE = Style(total_bits=12, support_max=64)


def grammars() -> LibraryGrammars:
    return LibraryGrammars(TOKENIZER, vocabulary_size=MODEL.vocabulary)


class Head:
    """A runner whose logits are those of some ids alone."""

    def __init__(self, runner: SyntheticRunner, ids: Sequence[int]) -> None:
        self._runner, self._ids = runner, list(ids)

    def __getattr__(self, name: str) -> object:
        return getattr(self._runner, name)

    def forward(self, batch: Sequence[Rows]) -> list[Logits]:
        return [np.ascontiguousarray(rows[:, self._ids]) for rows in self._runner.forward(batch)]


def drafter(
    load: Callable[[], Grammars] | None = grammars, *, head: str | None = None, side: Side = Side.DRAFT
) -> ModelDrafter:
    runner = SyntheticRunner(MODEL, side=side)
    abilities = Abilities(Drafter.SYNTHETIC, MODEL.context, MODEL.vocabulary, None)
    masks = None if load is None else MaskMaker(load)
    if head is None:
        made = ModelDrafter(runner, abilities, STYLE, masks=masks)
    else:
        ids = np.array(sorted((*TOKENIZER.encode(head), END)), np.int32)
        columns = VocabularyMap(ids, MODEL.vocabulary)
        made = ModelDrafter(Head(runner, ids), abilities, STYLE, columns, masks=masks)  # type: ignore[arg-type]
    made.open(0)
    return made


def after(text: str, **fields: object) -> Session:
    """Return a session that drafts behind some output."""
    output = TOKENIZER.encode(text)
    return ordered(PROMPT + output, output=len(output), **{"law": LAW, "gamma": 8, **fields})  # type: ignore[arg-type]


def begins(text: str) -> bool:
    """Whether a text begins one of the pattern's."""
    return re.fullmatch(r"([ab]x|c[0-9]{2})*([ab]|c[0-9]?)?|([ab]x|c[0-9]{2}){8}!?", text) is not None


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foreword.grammars.making.ThreadPoolExecutor", AtOnce)


@pytest.mark.parametrize("head", [None, "abx12c4567!"])
@pytest.mark.parametrize("rule", Rule)
@pytest.mark.parametrize("law", [LAW, GREEDY, replace(LAW, frequency_penalty=0.5, top_p=0.9)])
def test_a_block_is_written_within_the_grammar(law: LawParameters, rule: Rule, head: str | None) -> None:
    ours = drafter(head=head)
    for text in ("", "ax", "axc", "bxbxc1", "ax" * 8):
        ids = written(ours, 0, after(text, law=law, rule=rule)).ids
        assert begins(text + TOKENIZER.decode(ids))
        if text == "ax" * 8:
            assert ids == (*TOKENIZER.encode("!"), END)
        else:
            assert len(ids) == 8


def test_coupled_candidates_are_the_targets_own_text_where_both_are_one_model() -> None:
    ours, mask = drafter(side=Side.TARGET), grammars().mask(LAW.grammar or Grammar(""), stop_ids=LAW.stop_ids)
    text: Tokens = ()
    for position in range(8):
        assert KEYS.match is not None
        text += (sample_match(law_behind(text, mask, side=Side.TARGET), KEYS.match, position),)
    assert written(ours, 0, after("")).ids == text
    work = Compare(0, (*PROMPT, *text[:-1]), text, position=0)
    session = replace(after(""), sequence=after(TOKENIZER.decode(text)).sequence)
    assert ours.compare([CompareJob(0, session, work)]) == [8]


def law_behind(text: Tokens, mask: TokenMask, side: Side = Side.DRAFT):  # type: ignore[no-untyped-def]
    runner = SyntheticRunner(MODEL, side=side)
    runner.open(0)
    (logits,) = runner.forward([Rows(0, PROMPT + text, 1, LAW.temperature)])
    return target_laws([LawRows(LAW, logits, output=text, first_position=len(text), mask=mask)])[0][0]


@dataclass
class Behind:
    """A planted bug: what may come is that of the token before."""

    mask: TokenMask

    def allowed(self, output: Sequence[int]) -> NDArray[np.bool_] | None:
        return self.mask.allowed(output[:-1])


@dataclass
class NeverBack:
    """A planted bug: what was refused stays in the text that a mask is asked about."""

    mask: TokenMask
    seen: tuple[int, ...] = ()

    def allowed(self, output: Sequence[int]) -> NDArray[np.bool_] | None:
        if len(output) > len(self.seen):
            self.seen += tuple(output[len(self.seen) :])
        return self.mask.allowed(self.seen)


@dataclass
class Meddled:
    """Grammars whose masks are meddled with."""

    meddle: Callable[[TokenMask], TokenMask]

    def check(self, grammar: Grammar, *, output: Sequence[int] = ()) -> None:
        raise AssertionError("drafts check no grammar")

    def mask(self, grammar: Grammar, *, stop_ids: Sequence[int]) -> TokenMask:
        return self.meddle(grammars().mask(grammar, stop_ids=stop_ids))


def drawn_from_what_is_sent(ours: ModelDrafter) -> bool:
    """Whether all candidates of blocks, some of which are refused, are drawn from counts of the restricted law."""
    mask = grammars().mask(LAW.grammar or Grammar(""), stop_ids=LAW.stop_ids)
    for round, start in enumerate(("", "ax", "b", "c12", "c1", "axax", ""), start=1):
        session = after(start, rule=Rule.TOKEN, round=round, gamma=5)
        _, drawn = written(ours, 0, session).gathered(complete=True)
        text = TOKENIZER.encode(start)
        if drawn.laws is None or len(drawn.ids) != 5:
            return False
        for token, counts in zip(drawn.ids, drawn.laws, strict=True):
            if counts != to_counts(law_behind(text, mask), bits=STYLE.total_bits, cap=STYLE.support_max):
                return False
            address = draft_address(session.sequence.digest, round, len(text))
            if token != sample(counts, int(first_integers(KEYS.draft, [address])[0])):
                return False
            text += (token,)
    return True


def test_candidates_are_drawn_from_the_law_that_is_sent() -> None:
    assert drawn_from_what_is_sent(drafter())


@pytest.mark.parametrize("bug", [Behind, NeverBack])
def test_a_mask_of_another_text_is_noticed(bug: Callable[[TokenMask], TokenMask]) -> None:
    assert not drawn_from_what_is_sent(drafter(lambda: Meddled(bug)))


def test_candidates_of_another_law_than_the_one_sent_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted bug: counts of the whole law go out with candidates that the grammar was asked about."""
    monkeypatch.setattr("draft_service.drafters.masks.DraftMasks.restricted", lambda self, mask, logits, *_: logits)
    assert not drawn_from_what_is_sent(drafter())


def test_a_block_ends_where_the_head_has_nothing_that_may_come() -> None:
    ids = written(drafter(head="abc"), 0, after("")).ids
    assert TOKENIZER.decode(ids) in ("a", "b", "c")
    assert written(drafter(head="xyz"), 0, after("")).ids == ()


def test_a_block_ends_behind_what_the_grammar_does_not_allow() -> None:
    assert written(drafter(), 0, after("az")).ids == ()
    work = Compare(0, (*PROMPT, *TOKENIZER.encode("a")), TOKENIZER.encode("zz"), position=0)
    assert isinstance(drafter().compare([CompareJob(0, after("zz"), work)])[0], int)


@pytest.mark.parametrize("rule", Rule)
def test_without_a_mask_it_draws_as_if_there_were_no_grammar(rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    free = written(drafter(), 0, after("", law=replace(LAW, grammar=None), rule=rule)).gathered(complete=True)

    def missing() -> Grammars:
        raise NotFound("no tokenizer")

    unknown = replace(LAW, grammar=Grammar.regex("(a"))
    for one, law in ((drafter(None), LAW), (drafter(missing), LAW), (drafter(), unknown)):
        assert written(one, 0, after("", law=law, rule=rule)).gathered(complete=True) == free
    monkeypatch.setattr("foreword.grammars.making.ThreadPoolExecutor", Never)
    assert written(drafter(), 0, after("", rule=rule)).gathered(complete=True) == free


def test_what_is_prepared_is_within_the_grammar_too() -> None:
    ours = drafter()
    pen = written(ours, 0, after("ax"))
    session = replace(pen.session, writing=replace(pen.session.writing, ids=pen.ids))
    cached = len(PROMPT)
    job = LookJob(0, session, cached, session.context_from(cached))
    _, (outlook,) = ours.look_ahead([], [job])
    assert not isinstance(outlook, Exception)
    for kept, ranking in enumerate(outlook.rankings):
        text = "ax" + TOKENIZER.decode(pen.ids[:kept])
        assert all(begins(text + TOKENIZER.decode((token,))) for token in ranking)
    token = outlook.rankings[0][0]
    text = "ax" + TOKENIZER.decode((token,))
    ours.branch(0, 7, len(PROMPT) + 2)
    branch = Pen(7, replace(after(text), cached=len(PROMPT) + 2))
    (drawn,) = ours.step([branch], [])
    assert not isinstance(drawn, Exception)
    assert begins(text + TOKENIZER.decode(drawn.ids))
    ours.close(7)
    assert begins("ax" + TOKENIZER.decode(written(ours, 0, after("ax")).ids))
