"""`token`: token-level rejection sampling (Leviathan, Kalman, Matias 2023; Chen et al. 2023)."""

from __future__ import annotations

from collections.abc import Sequence

from foreword.acceptance.drafted import draft_laws, ratio, residual
from foreword.acceptance.evidence import Evidence
from foreword.acceptance.source import Source
from foreword.addresses.keys import verification_address
from foreword.laws.law import TargetLaw
from foreword.protocol.messages import BlockLaw, TargetKeys


class Token:
    """Keeps candidate x with probability min(1, p(x)/q(x)) and stops at the first failure.

    What is emitted there comes from the residual max(0, p − q). Exact if each candidate was drawn from its q.
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
        """Return h = min(1, p/q), and a residual sample for each number kept that can happen."""
        drafted = draft_laws(block_law, ids)
        ratios = tuple(ratio(p, q, token) for p, q, token in zip(laws, drafted, ids, strict=False))
        acceptance = tuple(min(1.0, r) for r in ratios)
        draws = []
        for n in range(len(ids) + 1):
            if n == len(ids):
                draws.append((n, laws[n]))
            elif acceptance[n] < 1.0:
                draws.append((n, residual(laws[n], drafted[n], 1.0)[0]))
                if acceptance[n] == 0.0:
                    break
        emit: list[int | None] = [None] * (len(ids) + 1)
        tokens = source.choose(keys.emit, [(verification_address(round, base, n), law) for n, law in draws])
        for (n, _), token in zip(draws, tokens, strict=True):
            emit[n] = token
        return Evidence(acceptance, tuple(emit), ratios)

    def kept(self, acceptance: Sequence[float], *, source: Source, coin_key: bytes, round: int, base: int) -> int:
        """Return the number of candidates before the first whose coin fails."""
        coins = [(verification_address(round, base, i), h) for i, h in enumerate(acceptance)]
        tossed = source.below(coin_key, coins)
        return next((i for i, success in enumerate(tossed) if not success), len(acceptance))
