"""A tokenizer of single letters and a few longer pieces, the grammars over it, and executors that make masks."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cache
from typing import Any

from foreword.grammars.library import LibraryGrammars
from foreword.models.tokenizer import ChatMessage, TextStream

LETTERS = tuple(bytes([byte]) for byte in range(0x20, 0x7F))
PIECES = (b'{"', b'":', b"ab", b"abc", b"true", b"null", "ä".encode(), "ä".encode()[:1], "ä".encode()[1:], b"")
END, PAUSE = b"<end>", b"<pause>"
WORDS = (*LETTERS, *PIECES, END, PAUSE)
EOS = WORDS.index(END)


class Letters:
    """A `Tokenizer` whose ids are `WORDS`."""

    vocabulary_size = len(WORDS)
    eos_ids = (EOS,)
    special_ids = frozenset((EOS, EOS + 1))
    digest = "letters"
    has_chat_template = False

    def encode(self, text: str) -> tuple[int, ...]:
        return ids(*text)

    def chat(self, messages: Sequence[ChatMessage]) -> tuple[int, ...]:
        raise AssertionError("grammars ask a tokenizer for bytes alone")

    def decode(self, ids: Sequence[int]) -> str:
        return b"".join(WORDS[token] for token in ids if token not in self.special_ids).decode()

    def token_bytes(self, token: int) -> bytes:
        return WORDS[token]

    def stream(self) -> TextStream:
        raise AssertionError("grammars ask a tokenizer for bytes alone")


def ids(*pieces: str) -> tuple[int, ...]:
    """Return the ids of pieces of text."""
    return tuple(WORDS.index(piece.encode()) for piece in pieces)


@cache
def grammars(vocabulary_size: int = len(WORDS)) -> LibraryGrammars:
    """Return the grammars over `WORDS`."""
    return LibraryGrammars(Letters(), vocabulary_size=vocabulary_size)


class AtOnce:
    """An executor that does everything at once."""

    def __init__(self, *_: object) -> None:
        pass

    def submit(self, call: Callable[..., Any], *args: object) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(call(*args))
        except Exception as error:
            future.set_exception(error)
        return future


class Never(AtOnce):
    """An executor that is never done with the grammar that is compiled first."""

    def __init__(self, *_: object) -> None:
        self.first = True

    def submit(self, call: Callable[..., Any], *args: object) -> Future[Any]:
        if self.first:
            self.first = False
            return Future()
        return super().submit(call, *args)
