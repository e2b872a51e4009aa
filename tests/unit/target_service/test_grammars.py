"""Sessions with a grammar in an engine: text, ends, errors, and waiting for what is compiled."""

import re
from dataclasses import replace

import pytest

from foreword.grammars.library import LibraryGrammars
from foreword.laws.parameters import Grammar, LawParameters
from foreword.models.synthetic import SyntheticModel
from foreword.models.synthetic_tokenizer import synthetic_tokenizer
from foreword.protocol.messages import LocalOrder, Lost, Refused, Result, Tokens
from foreword.protocol.words import Drafter, LossCode, RefusalCode, ResultKind, Rule
from foreword.testing.synthetic import Side, SyntheticRunner
from target_service.local.model import LocalModel
from tests.unit.grammars.kit import AtOnce, Never
from tests.unit.target_service.kit import Bench, Peer, open_session

MODEL = SyntheticModel(vocabulary=96, letters=1, eos=0.01, step_ms=20.0)
TOKENIZER = synthetic_tokenizer(MODEL)
END = 95
PATTERN = Grammar.regex("[ab]{3}(xyz|xya)?")


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foreword.grammars.making.ThreadPoolExecutor", AtOnce)


def grammars() -> LibraryGrammars:
    return LibraryGrammars(TOKENIZER, vocabulary_size=MODEL.vocabulary)


def bench() -> Bench:
    return Bench(model=MODEL, grammars=grammars)


def law(grammar: Grammar | None = PATTERN, **changes: object) -> LawParameters:
    return replace(LawParameters(temperature=1.0, stop_ids=(END,), grammar=grammar), **changes)


def ids(text: str) -> Tokens:
    return TOKENIZER.encode(text)


def plain_text(one: LawParameters, *, limit: int = 20) -> Tokens:
    """Return what a session writes without candidates."""
    alone, peer = bench(), Peer(1)
    alone.command(open_session(1, law=one, first=peer.plain(limit)))
    alone.run(3000)
    assert not alone.events(Lost)
    return tuple(token for result in alone.events(Result) for token in result.emit if token is not None)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_text_follows_the_grammar_and_ends_where_it_must(temperature: float) -> None:
    tokens = plain_text(law(Grammar.regex("[ab]{3}x"), temperature=temperature))
    text = TOKENIZER.decode(tokens)
    assert (len(text), set(text[:3]) <= {"a", "b"}, text[3]) == (4, True, "x")
    assert tokens[-1] == END


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("wrong_at", [0, 1, 2, 3, None])
def test_candidates_do_not_change_the_text(temperature: float, wrong_at: int | None) -> None:
    one = law(temperature=temperature)
    wanted = plain_text(one)
    block = tuple(ids("!")[0] if place == wrong_at else token for place, token in enumerate(wanted[:4]))
    target, peer = bench(), Peer(1)
    target.command(open_session(1, law=one))
    target.command(peer.speculate(), ms=50)
    target.block(peer.block(block), ms=50)
    target.run(150)
    (result,) = target.events(Result)
    assert result.kind is ResultKind.EVIDENCE
    peer.take(result)
    kept = len(block) if wrong_at is None else wrong_at
    assert peer.output == wanted[: kept + 1]
    target.command(peer.plain(20), ms=160)
    target.run(1000)
    later = tuple(token for result in target.events(Result)[1:] for token in result.emit if token is not None)
    assert peer.output + later == wanted


def test_a_session_that_is_opened_again_goes_on_with_the_same_text() -> None:
    wanted = plain_text(law())
    for split in range(1, len(wanted) - 1):
        target, peer = bench(), Peer(1)
        peer.sequence = peer.sequence.extended(wanted[:split])
        opening = open_session(1, tokens=peer.prompt + wanted[:split], prompt_len=len(peer.prompt), law=law())
        target.command(replace(opening, first=peer.plain(20)))
        target.run(1000)
        assert tuple(result.emit[0] for result in target.events(Result)) == wanted[split:]


@pytest.mark.parametrize("rule", Rule)
def test_a_grammar_that_can_only_end_too_early_costs_its_session_only(rule: Rule) -> None:
    target, bad, good = bench(), Peer(1, rule=rule), Peer(2)
    short = law(Grammar.regex("ab"), min_tokens=5)
    target.command(open_session(1, law=short, first=bad.plain(9)), open_session(2, law=law(None), first=good.plain(4)))
    target.run(1000)
    (lost,) = target.events(Lost)
    assert (lost.sid, lost.code) == (1, LossCode.DEAD_END)
    assert lost.message == "what leaves a token that may come: no token left at output position 2"
    assert [result.emit[0] for result in target.events(Result) if result.sid == 1] == list(ids("ab"))
    assert len([result for result in target.events(Result) if result.sid == 2]) == 4


def test_a_grammar_that_cannot_be_compiled_costs_its_session_only() -> None:
    target, bad, good = bench(), Peer(1), Peer(2)
    target.command(open_session(1, law=law(Grammar.regex("(a")), first=bad.plain(3)))
    target.command(open_session(2, law=law(), first=good.plain(2)))
    target.run(1000)
    (lost,) = target.events(Lost)
    assert (lost.sid, lost.code) == (1, LossCode.LAW)  # its orchestrator thought it good: another target may as well
    assert "unclosed group" in lost.message
    assert {result.sid for result in target.events(Result)} == {2}


def test_nobody_waits_for_the_grammar_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foreword.grammars.making.ThreadPoolExecutor", Never)
    target, slow, plain, quick = bench(), Peer(1), Peer(2), Peer(3)
    target.command(open_session(1, law=law(), first=slow.plain(2)))
    target.command(open_session(2, law=law(None), first=plain.plain(2)))
    target.command(open_session(3, law=law(), first=quick.plain(2)))
    target.run(500)
    assert [result.sid for result in target.events(Result)].count(1) == 0
    assert {result.sid for result in target.events(Result)} == {2, 3}


@pytest.mark.parametrize("rule", Rule)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_model_inside_the_target_writes_what_the_grammar_allows(rule: Rule, temperature: float) -> None:
    own = SyntheticRunner(replace(MODEL, step_ms=0.0), side=Side.DRAFT)
    local = LocalModel(own, Drafter.SYNTHETIC, vocabulary_size=MODEL.vocabulary)
    target, peer = Bench(model=MODEL, grammars=grammars, local=local), Peer(1, rule=rule)
    pattern = Grammar.regex("[a-f]{20}(xyz|xya)?")
    one = law(pattern, temperature=temperature)
    target.command(open_session(1, law=one, first=peer.commit(LocalOrder(Drafter.SYNTHETIC, 4, 64))))
    target.run(3000)
    assert not target.events(Lost)
    results = target.events(Result)
    for result in results:
        peer.take(result)
    output = peer.output[: peer.output.index(END) + 1]  # what follows a kept end is nobody's
    assert re.fullmatch("[a-f]{20}(xyz|xya)?", TOKENIZER.decode(output))
    offered = [token for result in results for token in result.ids]
    assert len(offered) > 10
    assert set(TOKENIZER.decode(offered)) <= set("abcdefxyz")
    assert len(results) < len(peer.output), "candidates were kept"
    if rule is Rule.MATCH:
        assert output == plain_text(one, limit=64)


def test_an_engine_without_grammars_refuses_them() -> None:
    target = Bench(model=MODEL)
    target.command(open_session(1, law=law()))
    target.run(100)
    (refused,) = target.events(Refused)
    assert refused.code is RefusalCode.BAD
    assert "law.grammar: got 'regex', wanted none: this target has no grammars" in refused.message
