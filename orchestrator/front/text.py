"""The port to the model's tokenizer."""

from __future__ import annotations

from typing import Protocol

from foreword.laws.parameters import LawParameters
from foreword.protocol.generation import Chat
from foreword.protocol.messages import Tokens
from orchestrator.sink.tokens import TextStream


class TextModel(Protocol):
    """Text and ids of one model; safe to use from several threads, as long texts are encoded in one of their own."""

    @property
    def digest(self) -> str:
        """Digest over id → bytes and special ids, as in ModelInfo."""

    @property
    def defaults(self) -> LawParameters:
        """How the model's makers say that tokens be chosen."""

    def encode(self, text: str) -> Tokens:
        """Return the ids of a text, with what the model puts in front of every text."""

    def encode_chat(self, chat: Chat) -> Tokens:
        """Return the ids of a chat by the model's template; raises InvalidField if it refuses the turns."""

    def decode(self, ids: Tokens, *, skip_special: bool) -> str:
        """Return the text of ids."""

    def stream(self, before: Tokens, *, skip_special: bool) -> TextStream:
        """Return a stream of what follows the ids `before`, which are not put out."""
