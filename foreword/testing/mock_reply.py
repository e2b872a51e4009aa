"""What a mock server says to one request: a scripted reply as the events of a stream."""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from foreword.errors import ForewordError
from foreword.protocol.generation import Delta, Event, Finish, GenerateRequest, Started, Timings, TokenPrompt, Usage
from foreword.protocol.messages import LogProbabilities, Tokens
from foreword.protocol.words import FinishReason, Rule, TokenSource

_TOP = (-0.1, -2.5, -4.0)
"""Log-probabilities of a token and of the ids after it, where a script gives none."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One scripted answer."""

    text: str = "Hello."
    """Cut into tokens before every word, where `pieces` does not say otherwise."""
    pieces: tuple[str, ...] | None = None
    """Texts of the single tokens."""
    ids: Tokens | None = None
    """Ids of the tokens; None counts from 100."""
    accepted: int = 0
    """Candidates kept per verification, where the request does not turn drafts off; 0 decodes plainly."""
    first_delay_ms: float = 0.0
    """Time before the first event."""
    delay_ms: float = 0.0
    """Time before every delta."""
    reason: FinishReason = FinishReason.STOP
    stop: str | None = None
    error: ForewordError | None = None
    """What to fail with, after `error_after` deltas; with 0 before any event."""
    error_after: int = 0
    top: tuple[tuple[tuple[int, float], ...], ...] | None = None
    """Log-probabilities (id, value) for each token, likeliest first, for requests that want them."""


class Pause:
    """Waits that the end of the call cuts short."""

    def __init__(self) -> None:
        self._end = threading.Event()

    @property
    def ended(self) -> bool:
        """Whether the call is over."""
        return self._end.is_set()

    def end(self) -> None:
        """End this and all later waits."""
        self._end.set()

    def wait(self, ms: float) -> bool:
        """Wait; return whether the call still runs."""
        return not self._end.wait(ms / 1000.0)


def replies_to(request: GenerateRequest, reply: Reply, *, request_id: str, pause: Pause) -> Iterator[Event]:
    """Yield the events of `reply`; they end early when the call does. Raises the scripted error."""
    begun = time.monotonic()
    if not pause.wait(reply.first_delay_ms):
        return
    if reply.error is not None and reply.error_after == 0:
        raise reply.error
    prompt = request.prompt.ids if isinstance(request.prompt, TokenPrompt) else ()
    yield Started(request_id, request.model or "mock", len(prompt) or 1, prompt if request.echo else ())
    first_us = _since(begun)
    for choice in range(request.n):
        tokens = _tokens(request, reply)
        for count, delta in enumerate(_deltas(request, reply, tokens, choice), start=1):
            if not pause.wait(reply.delay_ms):
                return
            yield delta
            if reply.error is not None and count == reply.error_after:
                raise reply.error
        yield _finish(request, reply, tokens, Finish(choice, reply.reason, timings=Timings(0, first_us, _since(begun))))


def _tokens(request: GenerateRequest, reply: Reply) -> list[tuple[int, str]]:
    pieces = re.findall(r"\s*\S+\s*$|\s*\S+", reply.text) if reply.pieces is None else reply.pieces
    ids = itertools.count(100) if reply.ids is None else reply.ids
    return list(zip(ids, pieces, strict=False))[: request.max_tokens]


def _step(request: GenerateRequest, reply: Reply) -> int:
    """Tokens per verification, or 1 for plain steps."""
    return 1 if request.speculation.gamma == 0 or request.one_token_per_event else reply.accepted + 1


def _deltas(request: GenerateRequest, reply: Reply, tokens: list[tuple[int, str]], choice: int) -> Iterator[Delta]:
    step = _step(request, reply)
    for begin in range(0, len(tokens), step):
        block = tokens[begin : begin + step]
        yield Delta(
            choice=choice,
            text="".join(piece for _, piece in block),
            ids=tuple(token for token, _ in block),
            sources=tuple(TokenSource.DRAFT if i < step - 1 else TokenSource.TARGET for i in range(len(block))),
            logprobs=_logprobs(request, reply, begin, block),
            text_ends=tuple(itertools.accumulate(len(piece) for _, piece in block)),
        )


def _logprobs(
    request: GenerateRequest, reply: Reply, begin: int, block: list[tuple[int, str]]
) -> LogProbabilities | None:
    if request.top_logprobs is None:
        return None
    if reply.top is not None:
        rows = reply.top[begin : begin + len(block)]
    else:
        rows = tuple(tuple((token + step, value) for step, value in enumerate(_TOP)) for token, _ in block)
    top = tuple(row[: request.top_logprobs] for row in rows) if request.top_logprobs else ()
    return LogProbabilities(tuple(row[0][1] for row in rows), top)


def _finish(request: GenerateRequest, reply: Reply, tokens: list[tuple[int, str]], plain: Finish) -> Finish:
    step, count = _step(request, reply), len(tokens)
    verifications = -(-count // step) if step > 1 else 0
    accepted = count - count // step if step > 1 else 0
    cut = request.max_tokens is not None and count == request.max_tokens
    usage = Usage(
        prompt_tokens=1,
        output_tokens=count,
        drafted_tokens=verifications * (step - 1),
        accepted_tokens=accepted,
        verifications=verifications,
        plain_steps=0 if step > 1 else count,
        drafts_used=int(step > 1),
        targets_used=1,
    )
    return Finish(
        choice=plain.choice,
        reason=FinishReason.LENGTH if cut else reply.reason,
        stop=None if cut else reply.stop,
        usage=usage,
        timings=plain.timings,
        rule=Rule.MATCH,
        seed=request.seed or 0,
    )


def _since(begun: float) -> int:
    return round((time.monotonic() - begun) * 1e6)
