"""Bounds that decoding checks before anything from a peer reaches a core."""

from __future__ import annotations

from dataclasses import dataclass, replace

from foreword.protocol.words import NO_TOKEN


@dataclass(frozen=True, slots=True)
class Limits:
    """Largest values that a decoder accepts; whatever exceeds one is refused by name, for its session only.

    Callers that know their model pass its vocabulary, so that no id out of range ever reaches a device.
    """

    tokens: int = 1 << 20
    """Tokens of one session, prompt and output together."""
    chunk: int = 16_384
    """Tokens that one Open or OpenTokens carries; longer prompts are cut into chunks of this size."""
    vocabulary: int = NO_TOKEN
    """Token ids are under this."""
    gamma: int = 256
    """Candidates of one block."""
    support: int = 4_096
    """Ids in the support of one candidate's law."""
    top_logprobs: int = 128
    """Alternatives with log-probabilities for one token."""
    law_ids: int = 8_192
    """Biased, banned or stop ids of one law, each."""
    grammar: int = 1 << 18
    """Characters of a grammar's source."""
    text: int = 2_048
    """Characters of messages, addresses, instances and other short texts."""
    cost_points: int = 1_024
    """Points of a cost curve."""
    wait_us: int = 60_000_000
    """Time that a step may be held, or a block may take, in microseconds."""
    entries: int = 65_536
    """Messages in one frame, counted before it is parsed."""
    frame_bytes: int = 64 << 20
    """Bytes of one frame."""
    info_bytes: int = 1 << 20
    """Bytes of an answer to GetInfo."""
    partial_opens: int = 64
    """Opens of one stream whose tokens are not complete yet."""
    partial_tokens: int = 1 << 21
    """Tokens of all Opens of one stream that are not complete yet."""
    handles: int = 8_192
    """Tickets of one stream whose handles are remembered."""

    def of_drafts(self) -> Limits:
        """Return the bounds of what drafts send: whoever is no draft of any session could stall a server with more."""
        return replace(self, entries=min(self.entries, DRAFT_ENTRIES), frame_bytes=min(self.frame_bytes, DRAFT_FRAME))


DRAFT_ENTRIES = 1_024
"""Messages in one frame of a draft; links put fewer into a frame of theirs."""
DRAFT_FRAME = 1 << 20
"""Bytes of one frame of a draft; links fill frames up to a quarter, but for one that holds a single message."""
_BYTES_OF_ENTRY = 6
_BYTES_OF_CANDIDATE = 8
_BYTES_OF_HEAD = 1_024
"""Most that a message with one block has for an id and its count, for a candidate beside its law, and for the rest."""


def longest_block(support: int) -> int:
    """Return how many candidates fit into a draft's frame when the law of each has so many ids."""
    return (DRAFT_FRAME - _BYTES_OF_HEAD) // (_BYTES_OF_ENTRY * support + _BYTES_OF_CANDIDATE)
