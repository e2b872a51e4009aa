"""Interim: synthetic models only, until foreword.models has tokenizers."""

from __future__ import annotations

from pathlib import Path

from foreword.errors import InvalidField
from foreword.laws.parameters import LawParameters
from foreword.protocol.generation import Chat
from foreword.protocol.messages import ModelInfo, Tokens
from orchestrator.front.text import TextModel
from orchestrator.sink.tokens import TextStream


class NumberStream:
    def push(self, token: int) -> str:
        return f" {token}"

    def flush(self) -> str:
        return ""


class NumberText:
    def __init__(self, digest: str) -> None:
        self._digest = digest

    @property
    def digest(self) -> str:
        return self._digest

    @property
    def defaults(self) -> LawParameters:
        return LawParameters()

    def encode(self, text: str) -> Tokens:
        return tuple(int(word) for word in text.split())

    def encode_chat(self, chat: Chat) -> Tokens:
        return self.encode(" ".join(message.content for message in chat.messages))

    def decode(self, ids: Tokens, *, skip_special: bool) -> str:
        return "".join(f" {token}" for token in ids)

    def stream(self, before: Tokens, *, skip_special: bool) -> TextStream:
        return NumberStream()


def load_text(source: str, model: ModelInfo, cache: Path | None) -> TextModel:
    if (source or model.source).startswith("synthetic"):
        return NumberText(model.tokenizer_digest)
    raise InvalidField("model", source, "synthetic:…")
