"""Tokenizers of synthetic models: the text of id 17 is " w17", and any other word is some id by its digest; or letters.

Letters write anything that a grammar may ask for: ids up to 94 are printable ASCII, those behind them pairs of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from foreword.models.synthetic import SyntheticModel
from foreword.models.tokenizer import ChatMessage, TextStream, check_roles, digest_of
from foreword.protocol.digest import EMPTY, extend

_LETTERS = "".join(map(chr, range(0x20, 0x7F)))
_WORD = re.compile(r"w(\d{1,7})")


class SyntheticTokenizer:
    """A `Tokenizer` without files; what it decodes, it encodes to the same ids."""

    def __init__(self, model: SyntheticModel) -> None:
        self._size = model.vocabulary
        self._eos = () if model.eos_id is None else (model.eos_id,)
        self._digest = digest_of((self.token_bytes(token) for token in range(self._size)), self._eos)

    @property
    def vocabulary_size(self) -> int:
        """One more than the largest id."""
        return self._size

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """The id that ends a text, where there is one."""
        return self._eos

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids that stand for no text."""
        return frozenset(self._eos)

    @property
    def digest(self) -> str:
        """`digest_of` what the ids mean."""
        return self._digest

    @property
    def has_chat_template(self) -> bool:
        """Never: a prompt is its words, also where it comes as a conversation."""
        return False

    def encode(self, text: str) -> tuple[int, ...]:
        """Return one id a word."""
        return tuple(self._id(word) for word in text.split())

    def chat(self, messages: Sequence[ChatMessage]) -> tuple[int, ...]:
        """Return the ids of all roles and contents in order; raises InvalidField for a role that is none."""
        check_roles(messages)
        return self.encode(" ".join(f"{message.role} {message.content}" for message in messages) + " assistant")

    def decode(self, ids: Sequence[int]) -> str:
        """Return the words of `ids` without special ids."""
        return "".join([self.piece(token) for token in ids if token not in self._eos])

    def token_bytes(self, token: int) -> bytes:
        """Return the text of an id, whatever it is."""
        return self.piece(token).encode()

    def stream(self) -> TextStream:
        """Start the text of a new output."""
        return _PieceStream(self)

    def piece(self, token: int) -> str:
        """Return the word of an id with its leading space."""
        return f" w{token}"

    def _id(self, word: str) -> int:
        match = _WORD.fullmatch(word)
        if match is not None and int(match[1]) < self._size:
            return int(match[1])
        return extend(EMPTY, word.encode()) % (self._size - len(self._eos))


class LetterTokenizer(SyntheticTokenizer):
    """A `Tokenizer` of letters; what it decodes, it encodes to ids of single letters."""

    def encode(self, text: str) -> tuple[int, ...]:
        """Return one id a letter; what is not printable ASCII is a space."""
        return tuple(max(_LETTERS.find(letter), 0) for letter in text)

    def piece(self, token: int) -> str:
        """Return the letter of an id, or its pair of letters."""
        first, second = divmod(token - len(_LETTERS), len(_LETTERS))
        return _LETTERS[token] if first < 0 else _LETTERS[first % len(_LETTERS)] + _LETTERS[second]


def synthetic_tokenizer(model: SyntheticModel) -> SyntheticTokenizer:
    """Return the tokenizer of a synthetic model."""
    return LetterTokenizer(model) if model.letters else SyntheticTokenizer(model)


class _PieceStream(TextStream):
    """Every id is a text of its own, so that nothing before it matters."""

    def __init__(self, tokenizer: SyntheticTokenizer) -> None:
        self._tokenizer = tokenizer

    def push(self, token: int) -> str:
        return "" if token in self._tokenizer.eos_ids else self._tokenizer.piece(token)

    def finish(self) -> str:
        return ""
