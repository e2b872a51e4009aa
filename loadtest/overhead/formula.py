"""What sessions in step could do at best, from step times and acceptance; pure (docs/benchmarks.md)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RoundCost:
    """What a round of n sessions in step cannot do without; milliseconds."""

    draft_ms: float
    """Drafting a block, γ·t_d(n)."""
    target_ms: float
    """The verification of all blocks, t_v(n(γ+1))."""
    rtt_ms: float = 0.0
    """Round trip between the draft and the other two."""

    @property
    def total_ms(self) -> float:
        """The round."""
        return self.draft_ms + self.target_ms + self.rtt_ms


def expected_emitted(agreement: float, gamma: int) -> float:
    """Return E(γ), the tokens emitted per verification when each candidate is kept with probability `agreement`.

    Σ a^k for k from 0 to γ (Leviathan et al. 2023, equation 1).
    """
    return sum(agreement**kept for kept in range(gamma + 1))


def ideal_tokens_per_s(sessions: int, emitted: float, cost: RoundCost) -> float:
    """Return n·E(γ) / (γ·t_d(n) + t_v(n(γ+1)) + RTT) in tokens per second."""
    return 1000.0 * sessions * emitted / cost.total_ms
