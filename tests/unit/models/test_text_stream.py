"""Text of an output id by id: no character is split, nothing is lost, whatever the ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from foreword.models.synthetic import SyntheticModel
from foreword.models.synthetic_tokenizer import SyntheticTokenizer
from foreword.models.text_stream import WindowStream
from tests.unit.models.kit import byte_level, metaspace

UNKNOWN = "\N{REPLACEMENT CHARACTER}"
BYTES, PIECES = byte_level(), metaspace()


def decoder(tokenizer: Tokenizer) -> Callable[[Sequence[int]], str]:
    return lambda ids: tokenizer.decode(list(ids), skip_special_tokens=True)


def pieces_of(stream: WindowStream, ids: Sequence[int]) -> list[str]:
    return [*(stream.push(token) for token in ids), stream.finish()]


def check_text(tokenizer: Tokenizer, text: str, stream: WindowStream) -> None:
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    pieces = pieces_of(stream, ids)
    assert "".join(pieces) == decoder(tokenizer)(ids)
    assert not any(UNKNOWN in piece for piece in pieces)


@given(st.text(st.characters(exclude_characters=UNKNOWN, exclude_categories=["Cs"]), max_size=60))
def test_characters_are_never_split(text):
    check_text(BYTES, text, WindowStream(decoder(BYTES)))


@given(st.text("ab cä😀é ", max_size=40))
def test_nor_by_tokenizers_with_pieces_and_bytes(text):
    check_text(PIECES, text, WindowStream(decoder(PIECES)))


@given(st.lists(st.integers(0, BYTES.get_vocab_size() - 1), max_size=120))
def test_any_ids_come_out_as_decoding_them_at_once(ids):
    assert "".join(pieces_of(WindowStream(decoder(BYTES)), ids)) == decoder(BYTES)(ids)


def test_what_is_no_text_is_not_held_back_for_ever():
    stream = WindowStream(decoder(BYTES))
    continuation = BYTES.token_to_id("Ģ")  # byte 0x80
    shown = "".join(stream.push(continuation) for _ in range(200))
    assert len(shown) >= 190


def test_pieces_come_as_soon_as_they_are_decided():
    stream = WindowStream(decoder(BYTES))
    ids = BYTES.encode("é😀a", add_special_tokens=False).ids
    assert [stream.push(token) for token in ids] == ["", "é", "", "", "", "😀", "a"]


def test_half_a_character_at_the_end_is_shown_as_such():
    stream = WindowStream(decoder(BYTES))
    ids = BYTES.encode("a😀", add_special_tokens=False).ids[:-1]
    assert pieces_of(stream, ids) == ["a", "", "", "", UNKNOWN]


def test_special_ids_have_no_text():
    stream = WindowStream(decoder(BYTES))
    assert pieces_of(stream, [1, BYTES.token_to_id("the"), 2]) == ["", "the", "", ""]


@pytest.mark.parametrize("tokenizer", [BYTES, PIECES])
def test_long_runs_of_bytes_survive_the_cutting_of_the_window(tokenizer):
    check_text(tokenizer, "😀ä€" * 60, WindowStream(decoder(tokenizer)))


def test_leading_spaces_survive_long_outputs():
    text = " ".join("ab" * 3 for _ in range(80))
    check_text(PIECES, text, WindowStream(decoder(PIECES)))


class _IdById(WindowStream):
    """Decodes every id alone."""

    def push(self, token: int) -> str:
        return self._decode([token])


class _ForgetsContext(WindowStream):
    """Starts anew whenever it can."""

    def push(self, token: int) -> str:
        piece = super().push(token)
        if piece:
            self._window, self._shown = [], 0
        return piece


@pytest.mark.parametrize(("broken", "tokenizer", "text"), [(_IdById, BYTES, "ä"), (_ForgetsContext, PIECES, "a b a b")])
def test_planted_bugs_are_caught(broken, tokenizer, text):
    with pytest.raises(AssertionError):
        check_text(tokenizer, text, broken(decoder(tokenizer)))


@given(st.lists(st.integers(0, 63), max_size=60))
def test_synthetic_text_is_encoded_to_the_same_ids(ids):
    tokenizer = SyntheticTokenizer(SyntheticModel())
    text = "".join(pieces_of(WindowStream(tokenizer.decode), ids))
    assert tokenizer.encode(text) == tuple(ids)
