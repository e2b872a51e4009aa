"""What calls and passes took, and ours against the better of two peers; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from foreword.protocol.messages import Tokens
from loadtest.bench.summary import Summary, median, summarize
from loadtest.overhead.window import SteadyWindow


@dataclass(frozen=True, slots=True)
class Output:
    """One output: when each of its tokens was there, in seconds since the call."""

    seconds: float
    """Of the whole call."""
    arrivals: tuple[float, ...]
    ids: Tokens = ()
    prompt_tokens: int = 0
    cached_tokens: int = 0

    @property
    def call_rate(self) -> float:
        """Tokens per second of the whole call, its prompt included."""
        return len(self.arrivals) / self.seconds

    @property
    def decode_rate(self) -> float:
        """Tokens per second between the first token and the last."""
        return (len(self.arrivals) - 1) / (self.arrivals[-1] - self.arrivals[0])


def steady_rate(outputs: Sequence[Output]) -> float:
    """Return the tokens per second of outputs that were written side by side while all were in their middle.

    From when the last of them has a fifth of its tokens to when the first of them has all but one. Raises InvalidField
    if they never were in their middle at one time.
    """
    tokens = min(len(output.arrivals) for output in outputs)
    window = SteadyWindow(len(outputs), first=max(2, tokens // 5), last=tokens - 1)
    moments = sorted((at, number) for number, output in enumerate(outputs) for at in output.arrivals)
    for at, number in moments:
        window.add(number, at, tokens=1, rounds=1)
    return window.steady().tokens_per_s


class Better(Enum):
    """Which of two values of a figure is the better one."""

    LARGER = 1
    SMALLER = -1


@dataclass(frozen=True, slots=True)
class Comparison:
    """Ours over the better of the peers, repeat by repeat."""

    peer: str
    ratio: Summary


def against_best(ours: Sequence[float], peers: Mapping[str, Sequence[float]], better: Better) -> Comparison:
    """Return ours over the peer whose median is the better one; all have as many repeats."""
    best = max(peers, key=lambda name: better.value * median(peers[name]))
    return Comparison(best, summarize([a / b for a, b in zip(ours, peers[best], strict=True)]))


def common_start(first: Tokens, second: Tokens) -> int:
    """Return how many tokens two texts have in common before they part."""
    return next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second))
    )
