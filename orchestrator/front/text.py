"""Text and ids of the model that is served, as requests need them."""

from __future__ import annotations

from functools import cached_property
from itertools import accumulate

from foreword.grammars.load import grammars_of
from foreword.grammars.port import Grammars
from foreword.laws.parameters import Grammar, LawParameters
from foreword.models.tokenizer import ChatMessage, GenerationDefaults, TextStream, Tokenizer
from foreword.protocol.generation import Chat
from foreword.protocol.messages import Tokens

CONTEXT = 16
"""Ids before an output that its text stream sees: some tokenizers write a leading space only inside a text."""


class ModelText:
    """A tokenizer and the model's defaults; encoding is safe in several threads at once."""

    def __init__(self, tokenizer: Tokenizer, defaults: GenerationDefaults) -> None:
        self._tokenizer = tokenizer
        self.defaults = law_of(defaults)
        """How the model's makers say that tokens be chosen."""
        self.digest = tokenizer.digest
        """Digest over id → bytes and special ids, as in ModelInfo."""

    def check_grammar(self, grammar: Grammar, output: Tokens) -> None:
        """Raise InvalidField for a grammar that targets cannot follow or that `output` does not begin a text of.

        Raises NotFound where the library is not installed. Slow when it is first asked.
        """
        self._grammars.check(grammar, output=output)

    @cached_property
    def _grammars(self) -> Grammars:
        return grammars_of(self._tokenizer, vocabulary_size=self._tokenizer.vocabulary_size)

    def encode(self, text: str) -> Tokens:
        """Return the ids of a text, with what the model puts in front of every text."""
        return self._tokenizer.encode(text)

    def encode_chat(self, chat: Chat) -> Tokens:
        """Return the ids of a chat by the model's template; raises InvalidField if it refuses the turns."""
        return self._tokenizer.chat([ChatMessage(turn.role, turn.content) for turn in chat.messages])

    def decode(self, ids: Tokens, *, skip_special: bool) -> str:
        """Return the text of ids."""
        if skip_special:
            return self._tokenizer.decode(ids)
        stream = SpecialStream(self._tokenizer)
        return "".join(map(stream.push, ids)) + stream.finish()

    def text_ends(self, ids: Tokens, *, skip_special: bool) -> tuple[int, ...]:
        """Return for each of some ids how many characters of their text come up to and with it."""
        stream = self.stream((), skip_special=skip_special)
        return tuple(accumulate(len(stream.push(token)) for token in ids))

    def token_bytes(self, token: int) -> bytes:
        """Return the bytes that an id stands for; those of its name where it is special."""
        return self._tokenizer.token_bytes(token)

    def stream(self, before: Tokens, *, skip_special: bool) -> TextStream:
        """Return a stream of what follows the ids `before`, which are not put out."""
        stream = self._tokenizer.stream() if skip_special else SpecialStream(self._tokenizer)
        for token in before[-CONTEXT:]:
            stream.push(token)
        return stream


class SpecialStream:
    """A text stream that writes special ids by their names."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._special = tokenizer.special_ids
        self._plain = tokenizer.stream()

    def push(self, token: int) -> str:
        """Return the text that is decided by now."""
        if token not in self._special:
            return self._plain.push(token)
        name = self._tokenizer.token_bytes(token).decode(errors="replace")
        return self._plain.finish() + name

    def finish(self) -> str:
        """Return what was held back."""
        return self._plain.finish()


def law_of(defaults: GenerationDefaults) -> LawParameters:
    """Return the law that a model's makers recommend; what they leave open is plain sampling."""
    penalty = defaults.repetition_penalty
    return LawParameters(
        temperature=1.0 if defaults.temperature is None else defaults.temperature,
        top_k=_positive(defaults.top_k),
        top_p=defaults.top_p,
        min_p=defaults.min_p,
        repetition_penalty=1.0 if penalty is None else penalty,
    )


def _positive(value: int | None) -> int | None:
    """Return the value, None for 0 and less: files write no limit so."""
    return value if value is not None and value > 0 else None
