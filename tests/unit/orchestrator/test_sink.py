"""The token sink: what comes out is a function of the tokens, never of how they were cut into blocks."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.protocol.generation import Delta
from foreword.protocol.words import TokenSource
from orchestrator.sink.stop_texts import StopSearch, StopTexts
from orchestrator.sink.tokens import OutputToken, SinkOptions, TokenSink

VOCABULARY = [b"a", b"b", b"ab", b"ba", b"\xc3", b"\xa9", b"aab", b"", b"\xf0\x9f", b"\x98\x80", b"bb "]
EOS = 99


class ByteStream:
    """A tokenizer of bytes: characters come out when their last byte is there."""

    def __init__(self) -> None:
        self._left = b""

    def push(self, token: int) -> str:
        self._left += b"<eos>" if token == EOS else VOCABULARY[token]
        for cut in range(len(self._left), -1, -1):
            try:
                text = self._left[:cut].decode()
            except UnicodeDecodeError:
                continue
            if len(self._left) - cut < 4:
                self._left = self._left[cut:]
                return text
        text, self._left = self._left.decode(errors="replace"), b""
        return text

    def finish(self) -> str:
        text, self._left = self._left.decode(errors="replace"), b""
        return text


def tokens_of(ids: list[int]) -> list[OutputToken]:
    sources = [TokenSource.TARGET, TokenSource.DRAFT, TokenSource.LOOKUP]
    return [OutputToken(t, sources[i % 3], -float(i), ((t, -float(i)),)) for i, t in enumerate(ids)]


def run(options: SinkOptions, ids: list[int], cuts: list[int]) -> tuple[list[Delta], TokenSink]:
    sink = TokenSink(options, ByteStream())
    tokens, deltas = tokens_of(ids), []
    for begin, end in pairwise([0, *sorted(cuts), len(ids)]):
        deltas += sink.take(tokens[begin:end])
        if sink.found:
            break
    return deltas + sink.finish(), sink


def joined(deltas: list[Delta]) -> tuple[object, ...]:
    """Everything that deltas say, without where one ends and the next begins."""
    text, ids, sources, chosen, top, ends = "", (), (), (), (), ()
    for delta in deltas:
        if not delta.ids:  # what is left of a character at the end
            text += delta.text
            continue
        assert delta.logprobs is not None
        ends += tuple(len(text) + end for end in delta.text_ends)
        text += delta.text
        ids, sources = ids + delta.ids, sources + delta.sources
        chosen, top = chosen + delta.logprobs.chosen, top + delta.logprobs.top
    assert len(ids) == len(sources) == len(chosen) == len(top) == len(ends)
    return text, ids, sources, chosen, top, ends


ids_lists = st.lists(st.integers(0, len(VOCABULARY) - 1), max_size=24)
stops = st.lists(st.sampled_from(["ab", "aab", "ba", "é", "b a", "abab", "😀", "bb", "aaaa", "a�"]), max_size=3)


@given(ids_lists, stops, st.booleans(), st.integers(0, 5), st.data())
def test_any_split_into_blocks_gives_the_same_output(
    ids: list[int], stop: list[str], include: bool, min_tokens: int, data: st.DataObject
) -> None:
    options = SinkOptions(stop=StopTexts(stop), include_stop=include, min_tokens=min_tokens)
    cuts = data.draw(st.lists(st.integers(0, len(ids)), max_size=6))
    whole, at_once = run(options, ids, [])
    parts, cut = run(options, ids, cuts)
    assert joined(whole) == joined(parts)
    assert at_once.found == cut.found
    assert at_once.released == cut.released


@given(ids_lists, stops, st.data())
def test_one_token_per_event_is_the_same_whatever_the_blocks(
    ids: list[int], stop: list[str], data: st.DataObject
) -> None:
    options = SinkOptions(stop=StopTexts(stop), one_token_per_event=True)
    cuts = data.draw(st.lists(st.integers(0, len(ids)), max_size=6))
    deltas, _ = run(options, ids, cuts)
    assert deltas == run(options, ids, [])[0]
    assert all(len(delta.ids) == 1 for delta in deltas[:-1])


@given(ids_lists, stops, st.booleans())
def test_output_is_the_text_up_to_the_first_stop(ids: list[int], stop: list[str], include: bool) -> None:
    deltas, sink = run(SinkOptions(stop=StopTexts(stop), include_stop=include), ids, list(range(len(ids))))
    stream = ByteStream()
    full = "".join(stream.push(t) for t in ids)
    ends = [(full.find(s) + len(s), -len(s), s) for s in stop if s in full]
    text = "".join(delta.text for delta in deltas)
    if not ends:
        assert sink.found is None
        assert text == full + stream.finish()
        return
    end, _, found = min(ends)
    assert sink.found is not None
    assert sink.found.text == found
    assert text == full[: end if include else end - len(found)]


@given(ids_lists)
def test_nothing_is_held_at_the_end_and_characters_are_whole(ids: list[int]) -> None:
    deltas, sink = run(SinkOptions(), ids, list(range(len(ids))))
    assert sum(len(delta.ids) for delta in deltas) == len(ids) == sink.released
    text, data = "".join(delta.text for delta in deltas), b"".join(VOCABULARY[t] for t in ids)
    if "\ufffd" not in text:
        assert text == data.decode()


def test_tokens_behind_a_stop_inside_a_block_are_dropped_and_the_straddling_one_is_cut() -> None:
    sink = TokenSink(SinkOptions(stop=StopTexts(("b ",))), ByteStream())
    deltas = sink.take(tokens_of([0, 10, 0, 1]))  # "a", "bb ", "a", "b"
    assert "".join(d.text for d in deltas) == "ab"
    assert [t for d in deltas for t in d.ids] == [0, 10]
    assert sink.released == 2
    assert sink.finish() == []


def test_a_possible_beginning_is_held_until_it_is_decided() -> None:
    sink = TokenSink(SinkOptions(stop=StopTexts(("aba",))), ByteStream())
    assert sink.take(tokens_of([0])) == []
    assert sink.take(tokens_of([1])) == []
    (delta,) = sink.take(tokens_of([1]))
    assert (delta.text, delta.ids, delta.text_ends) == ("abb", (0, 1, 1), (1, 2, 3))


def test_parts_of_a_character_come_with_its_last_token() -> None:
    sink = TokenSink(SinkOptions(), ByteStream())
    assert sink.take(tokens_of([8])) == []
    (delta,) = sink.take(tokens_of([9]))
    assert (delta.text, delta.ids, delta.text_ends) == ("😀", (8, 9), (0, 1))


def test_a_stop_made_of_parts_of_a_character_takes_all_of_them() -> None:
    sink = TokenSink(SinkOptions(stop=StopTexts(("😀",))), ByteStream())
    deltas = sink.take(tokens_of([0, 8, 9]))
    assert [t for d in deltas for t in d.ids] == [0]


def test_half_a_character_behind_a_whole_one_comes_at_the_end() -> None:
    sink = TokenSink(SinkOptions(), ByteStream())
    assert [d.text for d in sink.take(tokens_of([4, 9]))] == ["Ø"]
    assert [(d.text, d.ids) for d in sink.finish()] == [("\ufffd", ())]


def test_min_tokens_bars_stop_texts() -> None:
    deltas, sink = run(SinkOptions(stop=StopTexts(("a",)), min_tokens=2), [0, 0, 1, 0], [])
    assert "".join(d.text for d in deltas) == "aab"
    assert sink.found is not None


@pytest.mark.parametrize("include", [False, True])
def test_a_stop_id_is_output_as_an_id(include: bool) -> None:
    options = SinkOptions(stop_ids=frozenset({EOS}), include_stop=include)
    deltas, _ = run(options, [0, EOS], [1])
    assert [t for d in deltas for t in d.ids] == [0, EOS]
    assert "".join(d.text for d in deltas) == ("a<eos>" if include else "a")


def test_positions_of_a_resumed_output_go_on() -> None:
    sink = TokenSink(SinkOptions(stop=StopTexts(("b",)), first_position=7), ByteStream())
    sink.take(tokens_of([0, 0, 1]))
    assert sink.released == 9


def test_empty_stop_texts_and_repeats_do_not_matter() -> None:
    stops = StopSearch(StopTexts(["", "ab", "ab"]))
    assert stops.feed("a") is None
    assert stops.held == 1
    found = stops.feed("b")
    assert found is not None
    assert (found.begin, found.end) == (0, 2)


def test_planted_bug_searching_per_block_is_caught() -> None:
    """A sink that looks for stop texts in each block's text alone misses one that lies across two."""

    class PerBlock(TokenSink):
        def take(self, tokens):  # type: ignore[no-untyped-def]
            self._stops = StopSearch(self._options.stop)
            return super().take(tokens)

    options, ids = SinkOptions(stop=StopTexts(("ab",))), [0, 1, 0]
    broken = PerBlock(options, ByteStream())
    split = [d for token in tokens_of(ids) for d in broken.take([token])] + broken.finish()
    assert joined(split) != joined(run(options, ids, [])[0])
