"""What a peer knows of a session's tokens, and how a Commit or an Advance changes it (protocol.md, invariant 4)."""

from __future__ import annotations

from dataclasses import dataclass

from foreword.errors import ProtocolFault
from foreword.protocol import digest as digests
from foreword.protocol.messages import Tokens


@dataclass(frozen=True, slots=True)
class Sequence:
    """Committed tokens of one session: prompt and `base` output tokens, with their chained digest."""

    tokens: Tokens
    prompt_len: int
    digest: int

    @classmethod
    def of(cls, tokens: Tokens, prompt_len: int) -> Sequence:
        """Return the sequence of these tokens, the first `prompt_len` of which are the prompt."""
        return cls(tokens, prompt_len, digests.extend(digests.EMPTY, tokens))

    @property
    def base(self) -> int:
        """Number of committed output tokens."""
        return len(self.tokens) - self.prompt_len

    def extended(self, tokens: Tokens) -> Sequence:
        """Return this sequence with more committed tokens."""
        return Sequence(self.tokens + tokens, self.prompt_len, digests.extend(self.digest, tokens))

    def since(self, base: int) -> Tokens:
        """Return the committed output tokens from `base` on."""
        return self.tokens[self.prompt_len + base :]


def merge(known: Sequence, base: int, tokens: Tokens, digest: int) -> Sequence:
    """Return the committed sequence that a peer's message describes: `tokens` end at `base`.

    Raises ProtocolFault for a gap after what is known, tokens that reach into the prompt, or another digest.
    """
    start = base - len(tokens)
    if start > known.base:
        raise ProtocolFault(f"base: tokens start at {start}, wanted at most {known.base}, the committed length here")
    if start < 0:
        raise ProtocolFault(f"base: {len(tokens)} tokens end at {base}, which reaches into the prompt")
    if start == known.base:
        merged = known.extended(tokens)
    else:
        merged = Sequence.of(known.tokens[: known.prompt_len + start] + tokens, known.prompt_len)
    if merged.digest != digest:
        raise ProtocolFault(f"digest: got {digest:016x}, wanted {merged.digest:016x} at base {base}")
    return merged


def usable(cached: int, held: Tokens, wanted: Tokens, start: int) -> int:
    """Return how much of a cache with the first `cached` of `held` serves `wanted`; their first `start` are equal.

    The last wanted token is never counted: it is the row whose logits come next, even where a rejected candidate
    happens to equal the token that was emitted in its place (possible under block verification).
    """
    return max(0, min(cached, common(held, wanted, start), len(wanted) - 1))


def common(left: Tokens, right: Tokens, start: int) -> int:
    """Return the length of the longest common prefix, knowing that the first `start` tokens are equal."""
    end = min(len(left), len(right))
    while start < end and left[start] == right[start]:
        start += 1
    return start
