"""`block`: block verification (Sun et al., arXiv 2403.10444, algorithm 2)."""

from __future__ import annotations

from collections.abc import Sequence

from foreword.acceptance.drafted import draft_laws, ratio, residual
from foreword.acceptance.evidence import Evidence
from foreword.acceptance.source import Source
from foreword.addresses.keys import verification_address
from foreword.laws.law import TargetLaw
from foreword.protocol.messages import BlockLaw, TargetKeys


class Block:
    """Keeps the longest prefix whose coin succeeds.

    With P₀ = 1 and P_i = min(1, P_{i−1}·p_i(x_i)/q_i(x_i)), and S_i = Σ max(0, P_i·p_{i+1} − q_{i+1}) of the *next*
    position's laws,

        h_i = S_i / (S_i + 1 − P_i) for i < γ,    h_γ = P_γ.

    If n < γ are kept, the next token comes from the residual max(0, P_n·p_{n+1} − q_{n+1}). Then P(n ≥ i | x_≤i) = P_i,
    and the token after a kept prefix is exactly p whatever happened. Never keeps fewer than `token` on average.
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
        """Return the h of every candidate, and a residual sample for each number kept that can happen."""
        drafted = draft_laws(block_law, ids)
        ratios = tuple(ratio(p, q, token) for p, q, token in zip(laws, drafted, ids, strict=False))
        joint = [1.0]
        for r in ratios:
            joint.append(min(1.0, joint[-1] * r))
        residuals = [residual(p, q, scale) for p, q, scale in zip(laws, drafted, joint, strict=False) if scale > 0.0]
        acceptance = tuple(
            _success(joint[i], residuals[i][1] if joint[i] > 0.0 and i < len(ids) else None)
            for i in range(1, len(ids) + 1)
        )
        # n is kept only if its own coin can succeed and none behind it is sure to.
        sure = max((i for i, h in enumerate(acceptance, start=1) if h == 1.0), default=0)
        possible = [n for n in range(sure, len(ids) + 1) if n == 0 or acceptance[n - 1] > 0.0]
        draws = [(n, laws[n] if n == len(ids) else residuals[n][0]) for n in possible]
        emit: list[int | None] = [None] * (len(ids) + 1)
        tokens = source.choose(keys.emit, [(verification_address(round, base, n), law) for n, law in draws])
        for (n, _), token in zip(draws, tokens, strict=True):
            emit[n] = token
        return Evidence(acceptance, tuple(emit), ratios)

    def kept(self, acceptance: Sequence[float], *, source: Source, coin_key: bytes, round: int, base: int) -> int:
        """Return the largest number whose coin succeeds; every coin is tossed."""
        coins = [(verification_address(round, base, i), h) for i, h in enumerate(acceptance)]
        tossed = source.below(coin_key, coins)
        return max((i for i, success in enumerate(tossed, start=1) if success), default=0)


def _success(joint: float, mass: float | None) -> float:
    # `mass` is S_i; None behind the last candidate, or where the prefix cannot be kept.
    if joint == 1.0:
        return 1.0  # also 0/0, where any value is right: the next candidate is kept surely
    if mass is None:
        return joint
    return mass / (mass + 1.0 - joint)
