import itertools
import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.errors import InvalidField
from foreword.grammars import library
from foreword.laws.parameters import Grammar
from tests.unit.grammars.kit import EOS, PAUSE, WORDS, Letters, grammars, ids

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "boolean"}, "b": {"type": "array", "items": {"type": "null"}, "maxItems": 2}},
    "required": ["a"],
    "additionalProperties": False,
}


def words(grammar: Grammar, *pieces: str) -> set[bytes]:
    """Return what may come behind some pieces of text."""
    allowed = grammars().mask(grammar, stop_ids=(EOS,)).allowed(ids(*pieces))
    return {WORDS[token] for token in np.flatnonzero(allowed)}


def texts(grammar: Grammar, *, longest: int) -> set[bytes]:
    """Return all texts of a grammar with few of them, however they are cut into pieces."""
    mask, found, waiting = grammars().mask(grammar, stop_ids=(EOS,)), set(), [()]
    while waiting:
        output = waiting.pop()
        assert len(output) <= longest
        for token in np.flatnonzero(mask.allowed(output)).tolist():
            if token == EOS:
                found.add(b"".join(WORDS[one] for one in output))
            else:
                waiting.append((*output, token))
    return found


@pytest.mark.parametrize(
    ("grammar", "pieces", "wanted"),
    [
        (Grammar.regex("(abcx|abd)"), [], {b"a", b"ab", b"abc"}),
        (Grammar.regex("(abcx|abd)"), ["ab"], {b"c", b"d"}),
        (Grammar.regex("(abcx|abd)"), ["a", "b", "d"], {b"<end>"}),
        (Grammar.regex("ab*"), ["ab"], {b"b", b"<end>"}),
        (Grammar.regex(""), [], {b"<end>"}),
        (Grammar.regex(r"a/b\/"), ["a"], {b"/"}),
        (Grammar.regex(r"a/b\/"), ["a", "/", "b"], {b"/"}),
        (Grammar.choice(["abc", "ab", '"\\']), ["ab"], {b"c", b"<end>"}),
        (Grammar.choice(["abc", "ab", '"\\']), ['"'], {b"\\"}),
        (Grammar.choice(["", "null"]), [], {b"n", b"null", b"<end>"}),
        (Grammar.json_object(), [], {b"{", b'{"'}),
        (Grammar.json_schema(SCHEMA), ["{", '"', "a", '"', ":", "true"], {b",", b"}", b" "}),
        (Grammar.lark('start: "a" <pause> b\nb: "b"'), ["a"], {PAUSE}),
    ],
)
def test_what_may_come_is_what_a_text_of_the_grammar_goes_on_with(
    grammar: Grammar, pieces: list[str], wanted: set[bytes]
) -> None:
    assert words(grammar, *pieces) == wanted


def test_bytes_of_a_character_may_come_one_by_one() -> None:
    mask = grammars().mask(Grammar.regex("ä"), stop_ids=(EOS,))
    first = WORDS.index("ä".encode()[:1])
    assert mask.allowed((first,)).nonzero()[0].tolist() == [first + 1]


@pytest.mark.parametrize(
    ("grammar", "wanted"),
    [
        (Grammar.choice(["abcab", "a", '{"ab']), {b"abcab", b"a", b'{"ab'}),
        (
            Grammar.regex("a?b{1,2}(c|cc)?"),
            {a + b + c for a in (b"", b"a") for b in (b"b", b"bb") for c in (b"", b"c", b"cc")},
        ),
    ],
)
def test_every_cut_of_every_text_comes_and_nothing_else(grammar: Grammar, wanted: set[bytes]) -> None:
    assert texts(grammar, longest=8) == wanted
    assert grammar.kind != "regex" or all(re.fullmatch(grammar.source.encode(), text) for text in wanted)


def test_a_stop_id_comes_exactly_where_a_text_may_end() -> None:
    letter = ids("x")[0]
    mask = grammars().mask(Grammar.regex("ab?"), stop_ids=(letter, EOS + 1))
    for output, wanted in ((), ids("a", "ab", "abc")[:2]), (ids("a"), (*ids("b"), letter, EOS + 1)):
        assert set(np.flatnonzero(mask.allowed(output)).tolist()) == set(wanted)
    # Ids that end a text elsewhere are none of this one's.
    assert not mask.allowed(ids("a"))[EOS]


@pytest.mark.parametrize("grammar", [Grammar.json_schema(SCHEMA), Grammar.regex("(ab|abc{2,3}|[xyz]+ )*")])
@given(choices=st.lists(st.integers(0, 1 << 16), max_size=12), back=st.lists(st.integers(0, 12), max_size=6))
def test_a_mask_is_a_function_of_the_output(grammar: Grammar, choices: list[int], back: list[int]) -> None:
    mask, output, seen = grammars().mask(grammar, stop_ids=(EOS,)), (), []
    for choice in choices:
        allowed = mask.allowed(output)
        seen.append((output, allowed))
        going_on = [token for token in np.flatnonzero(allowed).tolist() if token != EOS]
        if not going_on:
            break
        output = (*output, going_on[choice % len(going_on)])
    asked = [seen[place % len(seen)] for place in back] if seen else []
    for where, allowed in asked:  # back and forth, and of a mask that has seen nothing
        assert (mask.allowed(where) == allowed).all()
        assert (grammars().mask(grammar, stop_ids=(EOS,)).allowed(where) == allowed).all()


def test_an_output_that_the_grammar_does_not_allow_is_refused_and_spoils_nothing() -> None:
    mask = grammars().mask(Grammar.regex("abc"), stop_ids=(EOS,))
    before = mask.allowed(ids("a"))
    with pytest.raises(InvalidField, match=r"output: got \d+, wanted one that the grammar allows behind the 2 before"):
        mask.allowed(ids("a", "b", "b"))
    assert (mask.allowed(ids("a")) == before).all()
    with pytest.raises(InvalidField, match="resume: got"):
        grammars().check(Grammar.regex("abc"), output=ids("a", "b", "b"))
    grammars().check(Grammar.regex("abc"), output=ids("a", "b", "c"))


@pytest.mark.parametrize(
    ("grammar", "reason"),
    [
        (Grammar.regex("(a"), "unclosed group"),
        (Grammar.regex("a)|(b"), "unopened group"),
        (Grammar.regex("a\\"), "wanted one that can be followed"),
        (Grammar.json_schema("{"), "wanted JSON"),
        (Grammar.json_schema("[" * 100_000), "wanted JSON"),
        (Grammar.json_schema("[]"), "wanted a JSON object"),
        (Grammar.json_schema({"type": "foo"}), "Invalid type: foo"),
        (Grammar.json_schema({"unevaluatedProperties": False}), "unevaluatedProperties"),
        (Grammar("json_object", "x"), "wanted no source"),
        (Grammar("choice", "[]"), "wanted a JSON array"),
        (Grammar("choice", "[1]"), "wanted a JSON array"),
        (Grammar("choice", json.dumps(["a"] * 5000)), "got '5000 choices', wanted at most 4096"),
        (Grammar.lark("start: foo"), 'unknown name: "foo"'),
        (Grammar.lark("start: <nobody>"), "unknown special token"),
        (Grammar.lark("start: " + "(" * 5000 + '"a"' + ")" * 5000), "too deeply nested"),
        (Grammar("gbnf", "x"), "wanted one of json_object"),
    ],
)
def test_a_grammar_that_means_nothing_is_refused_with_the_reason(grammar: Grammar, reason: str) -> None:
    with pytest.raises(InvalidField, match=re.escape(reason)) as refused:
        grammars().check(grammar)
    assert refused.value.field.startswith("law.grammar")
    assert len(refused.value.message) < 700


def test_a_long_chain_of_rules_does_not_end_the_process() -> None:
    rules = "\n".join(f"r{i}: r{i + 1}" for i in range(5000))
    grammars().check(Grammar.lark(f'start: r0\n{rules}\nr5000: "a"'))


def test_a_source_does_not_decide_what_is_forced() -> None:
    forced = Grammar.lark('%llguidance {"no_forcing": false}\nstart: "abc"')
    assert words(forced) == {b"a", b"ab", b"abc"}


def test_ids_behind_those_of_the_tokenizer_never_come() -> None:
    size = len(WORDS) + 27
    allowed = grammars(size).mask(Grammar.regex("(?s:.*)"), stop_ids=(EOS,)).allowed(())
    assert len(allowed) == size
    assert allowed[EOS]
    assert not allowed[EOS + 1 :].any()


def test_few_compiled_grammars_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "KEPT", 2)
    own = library.LibraryGrammars(Letters(), vocabulary_size=len(WORDS))
    masks = [own.mask(Grammar.regex(letter), stop_ids=(EOS,)) for letter in "abc"]
    assert len(own._compiled) == 2
    for mask, letter in itertools.product(masks, "a"):
        assert mask.allowed(()).sum() >= len(letter)
    assert len(own._compiled) == 2


def test_a_text_that_the_library_gives_up_takes_no_other_with_it():
    """Copies of a compiled grammar share its states: where one of them has come to the limit, all have."""
    held, grammar = grammars(), Grammar.regex("((.{0,100}){0,100}){0,22}")
    beside = held.mask(grammar, stop_ids=(EOS,))
    short, text = ids("a"), ids("a", "b")
    before = beside.allowed(short)
    long = held.mask(grammar, stop_ids=(EOS,))

    def go_on() -> None:
        for length in range(400):
            long.allowed(ids(*["a"] * length))

    with pytest.raises(InvalidField, match=r"law\.grammar: got .*, wanted one that can be followed further: "):
        go_on()
    assert (held.mask(grammar, stop_ids=(EOS,)).allowed(short) == before).all()
    assert beside.allowed(text).any()
    held.check(grammar, output=short)
