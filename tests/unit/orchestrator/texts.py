"""A tokenizer for tests: words are numbers."""

from __future__ import annotations

from foreword.laws.parameters import LawParameters
from foreword.protocol.generation import Chat
from foreword.protocol.messages import Tokens


class WordStream:
    def push(self, token: int) -> str:
        return f"{token} "

    def finish(self) -> str:
        return ""


class WordText:
    digest = "digest"
    defaults = LawParameters(temperature=0.0)

    def encode(self, text: str) -> Tokens:
        return tuple(int(word) for word in text.split())

    def encode_chat(self, chat: Chat) -> Tokens:
        return self.encode(" ".join(message.content for message in chat.messages))

    def decode(self, ids: Tokens, *, skip_special: bool) -> str:
        return "".join(f"{token} " for token in ids)

    def stream(self, before: Tokens, *, skip_special: bool) -> WordStream:
        return WordStream()
