"""`match`: the target samples for itself; candidates are kept while they are what it sampled."""

from __future__ import annotations

from collections.abc import Sequence

from foreword.acceptance.evidence import Evidence
from foreword.acceptance.source import Source
from foreword.addresses.keys import Address
from foreword.laws.law import TargetLaw
from foreword.protocol.messages import BlockLaw, TargetKeys


class Match:
    """Exact with any draft: the text is the target's own samples, a function of key, positions and laws.

    The numbers belong to output positions alone, so a position that is looked at again, behind a mismatch, after a
    failure or in a replay, gives the same token for the same text before it. A new sample there would favour tokens
    that the draft writes.
    """

    def evidence(
        self,
        laws: Sequence[TargetLaw],
        ids: Sequence[int],
        block_law: BlockLaw | None,
        *,
        source: Source,
        keys: TargetKeys,
        round: int,
        base: int,
    ) -> Evidence:
        """Return the target's samples up to and with the first that differs; `block_law` and `round` do not matter."""
        if all(law.size == 1 for law in laws):  # temperature 0: there is nothing to draw
            own = iter([law.token_at(0) for law in laws])
        else:
            own = source.race(keys.match, [(Address(base + i), law) for i, law in enumerate(laws)])
        emit: list[int | None] = []
        for token, candidate in zip(own, (*ids, None), strict=False):
            emit.append(token)
            if token != candidate:
                break
        kept = len(emit) - 1
        return Evidence(
            acceptance=tuple(1.0 if i < kept else 0.0 for i in range(len(ids))),
            emit=tuple(emit) + (None,) * (len(ids) - kept),
        )

    def kept(self, acceptance: Sequence[float], *, source: Source, coin_key: bytes, round: int, base: int) -> int:
        """Return how many candidates agree; no coin is tossed."""
        return next((i for i, h in enumerate(acceptance) if h < 1.0), len(acceptance))
