"""Log-probabilities in the two shapes that OpenAI has for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from foreword.protocol.generation import Delta
from orchestrator.http.answers import ChatLogprobs, CompletionLogprobs, TokenLogprob, TopLogprob

TokenBytes = Callable[[int], bytes]
"""The bytes that an id stands for."""


def token_text(token: bytes) -> str:
    """Return how a token is written; what is no whole character becomes U+FFFD, its bytes tell it apart."""
    return token.decode(errors="replace")


def chat_logprobs(delta: Delta, bytes_of: TokenBytes) -> ChatLogprobs:
    """Return the log-probabilities of a delta's tokens as chats have them."""
    content = []
    for token, logprob, top in _rows(delta):
        piece = bytes_of(token)
        content.append(
            TokenLogprob(
                token=token_text(piece),
                logprob=logprob,
                bytes=list(piece),
                top_logprobs=[_top(bytes_of(other), value) for other, value in top],
            )
        )
    return ChatLogprobs(content=content, refusal=None)


def completion_logprobs(delta: Delta, bytes_of: TokenBytes, *, begin: int) -> CompletionLogprobs:
    """Return the log-probabilities of a delta's tokens as completions have them.

    `begin` is how many characters of the choice's text came before. Among the likeliest there is always the token that
    came; of two tokens that are written alike the likelier stands.
    """
    tokens, values, tops, offsets = [], [], [], []
    for place, (token, logprob, top) in enumerate(_rows(delta)):
        text = token_text(bytes_of(token))
        tokens.append(text)
        values.append(logprob)
        row: dict[str, float] = {}
        for other, value in top:
            row.setdefault(token_text(bytes_of(other)), value)
        row.setdefault(text, logprob)
        tops.append(row)
        offsets.append(begin + (delta.text_ends[place - 1] if place else 0))
    return CompletionLogprobs(tokens=tokens, token_logprobs=values, top_logprobs=tops, text_offset=offsets)


def join_chat(parts: list[ChatLogprobs]) -> ChatLogprobs:
    """Return the log-probabilities of several deltas as one."""
    return ChatLogprobs(content=[one for part in parts for one in part.content or ()], refusal=None)


def join_completion(parts: list[CompletionLogprobs]) -> CompletionLogprobs:
    """Return the log-probabilities of several deltas as one."""
    return CompletionLogprobs(
        tokens=[one for part in parts for one in part.tokens],
        token_logprobs=[one for part in parts for one in part.token_logprobs],
        top_logprobs=[one for part in parts for one in part.top_logprobs or ()],
        text_offset=[one for part in parts for one in part.text_offset],
    )


def _rows(delta: Delta) -> Iterator[tuple[int, float, tuple[tuple[int, float], ...]]]:
    """Yield each token of a delta, its log-probability, and the likeliest of its place."""
    logprobs = delta.logprobs
    if logprobs is None:
        return
    for place, token in enumerate(delta.ids):
        yield token, logprobs.chosen[place], logprobs.top[place] if logprobs.top else ()


def _top(piece: bytes, value: float) -> TopLogprob:
    return TopLogprob(token=token_text(piece), logprob=value, bytes=list(piece))
