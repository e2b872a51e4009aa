"""Log-probabilities in the two shapes that OpenAI has for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from foreword.protocol.generation import Delta, Started
from foreword.protocol.messages import LogProbabilities, Tokens
from orchestrator.http.answers import ChatLogprobs, CompletionLogprobs, TokenLogprob, TopLogprob

Row = tuple[int, float, tuple[tuple[int, float], ...]]
"""A token, its log-probability, and the likeliest tokens of its place."""
TokenBytes = Callable[[int], bytes]
"""The bytes that an id stands for."""


def token_text(token: bytes) -> str:
    """Return how a token is written; what is no whole character becomes U+FFFD, its bytes tell it apart."""
    return token.decode(errors="replace")


def chat_logprobs(delta: Delta, bytes_of: TokenBytes) -> ChatLogprobs:
    """Return the log-probabilities of a delta's tokens as chats have them."""
    content = []
    for token, logprob, top in _rows(delta.ids, delta.logprobs):
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
    rows = list(_rows(delta.ids, delta.logprobs))
    return CompletionLogprobs(
        tokens=[token_text(bytes_of(token)) for token, _, _ in rows],
        token_logprobs=[logprob for _, logprob, _ in rows],
        top_logprobs=[_by_text(row, bytes_of) for row in rows],
        text_offset=[begin + (delta.text_ends[place - 1] if place else 0) for place in range(len(rows))],
    )


def echo_logprobs(started: Started, bytes_of: TokenBytes, ends: Sequence[int]) -> CompletionLogprobs:
    """Return the log-probabilities of a prompt as completions have them; its first token has none.

    `ends` tells for each token how many characters of the prompt came up to and with it.
    """
    ids = started.prompt_ids
    rows = list(_rows(ids[1:], started.prompt_logprobs))
    return CompletionLogprobs(
        tokens=[token_text(bytes_of(token)) for token in ids],
        token_logprobs=[None, *(logprob for _, logprob, _ in rows)],
        top_logprobs=[None, *(_by_text(row, bytes_of) for row in rows)],
        text_offset=[0, *ends[:-1]],
    )


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


def _by_text(row: Row, bytes_of: TokenBytes) -> dict[str, float]:
    """Return the likeliest of a place and the token that stands there; of two that are written alike the likelier."""
    token, logprob, top = row
    found: dict[str, float] = {}
    for other, value in top:
        found.setdefault(token_text(bytes_of(other)), value)
    found.setdefault(token_text(bytes_of(token)), logprob)
    return found


def _rows(ids: Tokens, logprobs: LogProbabilities | None) -> Iterator[Row]:
    """Yield each token, its log-probability, and the likeliest of its place; nothing where there are none."""
    if logprobs is None:
        return
    for place, token in enumerate(ids):
        yield token, logprobs.chosen[place], logprobs.top[place] if logprobs.top else ()


def _top(piece: bytes, value: float) -> TopLogprob:
    return TopLogprob(token=token_text(piece), logprob=value, bytes=list(piece))
