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
    began = time.monotonic()
    if not pause.wait(reply.first_delay_ms):
        return
    if reply.error is not None and reply.error_after == 0:
        raise reply.error
    prompt = request.prompt.ids if isinstance(request.prompt, TokenPrompt) else ()
    yield Started(request_id, request.model or "mock", len(prompt) or 1, prompt if request.echo else ())
    first_us, answer = _since(began), _Answer(request, reply)
    for choice in range(request.n):
        for count, delta in enumerate(answer.deltas(choice), start=1):
            if not pause.wait(reply.delay_ms):
                return
            yield delta
            if reply.error is not None and count == reply.error_after:
                raise reply.error
        yield answer.finish(choice, Timings(0, first_us, _since(began)))


class _Answer:
    """A reply cut into tokens and blocks, as the request has it."""

    def __init__(self, request: GenerateRequest, reply: Reply) -> None:
        self._request = request
        self._reply = reply
        ids = itertools.count(100) if reply.ids is None else reply.ids
        pieces = re.findall(r"\s*\S+\s*$|\s*\S+", reply.text) if reply.pieces is None else reply.pieces
        self._tokens = list(zip(ids, pieces, strict=False))[: request.max_tokens]
        drafts = request.speculation.gamma != 0 and not request.one_token_per_event
        self._step = reply.accepted + 1 if drafts else 1
        """Tokens per verification, or 1 for plain steps."""

    def deltas(self, choice: int) -> Iterator[Delta]:
        """Yield one delta for every verification or plain step."""
        for begin in range(0, len(self._tokens), self._step):
            block = self._tokens[begin : begin + self._step]
            own = self._step - 1  # within a block, where the target's own token stands
            yield Delta(
                choice=choice,
                text="".join(piece for _, piece in block),
                ids=tuple(token for token, _ in block),
                sources=tuple(TokenSource.DRAFT if i < own else TokenSource.TARGET for i in range(len(block))),
                logprobs=self._logprobs(begin, block),
                text_ends=tuple(itertools.accumulate(len(piece) for _, piece in block)),
            )

    def finish(self, choice: int, timings: Timings) -> Finish:
        """Return the end of a choice, with what it would have taken."""
        count, step = len(self._tokens), self._step
        verifications = -(-count // step) if step > 1 else 0
        usage = Usage(
            prompt_tokens=1,
            output_tokens=count,
            drafted_tokens=verifications * (step - 1),
            accepted_tokens=count - count // step,
            verifications=verifications,
            plain_steps=0 if step > 1 else count,
            drafts_used=int(step > 1),
            targets_used=1,
        )
        cut = self._request.max_tokens == count
        return Finish(
            choice=choice,
            reason=FinishReason.LENGTH if cut else self._reply.reason,
            stop=None if cut else self._reply.stop,
            usage=usage,
            timings=timings,
            rule=Rule.MATCH,
            seed=self._request.seed or 0,
        )

    def _logprobs(self, begin: int, block: list[tuple[int, str]]) -> LogProbabilities | None:
        wanted = self._request.top_logprobs
        if wanted is None:
            return None
        if self._reply.top is not None:
            rows = self._reply.top[begin : begin + len(block)]
        else:
            rows = tuple(tuple((token + step, value) for step, value in enumerate(_TOP)) for token, _ in block)
        return LogProbabilities(tuple(row[0][1] for row in rows), tuple(row[:wanted] for row in rows) if wanted else ())


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1e6)
