"""The real pair on this machine: dev prompts with the measured γ, every fixed one, and none, prompt by prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from foreword.client import AsyncClient
from foreword.models.dtype import Dtype
from foreword.stack.config import StackConfig
from foreword.stack.stack import Stack
from loadtest.bench.progress import Progress
from loadtest.prompts import Prompt, dev_prompts
from loadtest.speedup.plan import spread_over
from loadtest.speedup.texts import Spent, Text, text_of, totals, warm

GAMMAS = (0, 1, 2, 3, 4, 6, 8)
TEMPERATURES = (0.0, 0.7)
_TOKENS = 64
_PER_CATEGORY = 4
PROMPTS = 40
_RESAMPLED = 4000
Arm = int | None
"""A fixed γ, or None for the measured one."""


@dataclass(frozen=True, slots=True)
class Measured:
    """All texts, arm by arm in the same order: prompts, and for each of them the temperatures."""

    texts: Mapping[Arm, Sequence[Text]]

    @property
    def best_gamma(self) -> int:
        """The fixed γ with most tokens over all time of calls."""
        return max((arm for arm in self.texts if arm is not None), key=lambda arm: self.total(arm).tokens_per_s)

    def total(self, arm: Arm) -> Spent:
        """Return all texts of an arm together."""
        return totals(self.texts[arm])

    def ratio(self, over: Arm) -> tuple[float, float, float]:
        """Return the measured γ's speed over another arm's, with a 95 % interval; prompts are drawn anew in pairs."""
        mine, other = (_columns(self.texts[arm]) for arm in (None, over))
        prompts = mine.shape[0] // len(TEMPERATURES)
        mine, other = (column.reshape(prompts, len(TEMPERATURES), 2).sum(axis=1) for column in (mine, other))
        drawn = np.random.default_rng(0).integers(0, prompts, (_RESAMPLED, prompts))
        found = _speed(mine[drawn].sum(axis=1)) / _speed(other[drawn].sum(axis=1))
        low, high = np.quantile(found, (0.025, 0.975))
        return float(_speed(mine.sum(axis=0)) / _speed(other.sum(axis=0))), float(low), float(high)

    def by_category(self, over: Arm) -> dict[str, float]:
        """Return the same ratio for each category."""
        names = dict.fromkeys(text.category for text in self.texts[None])
        return {name: self._of(name, None).tokens_per_s / self._of(name, over).tokens_per_s for name in names}

    def _of(self, category: str, arm: Arm) -> Spent:
        return totals(text for text in self.texts[arm] if text.category == category)


def _columns(texts: Sequence[Text]) -> np.ndarray:
    return np.array([(text.spent.tokens, text.spent.seconds) for text in texts])


def _speed(sums: np.ndarray) -> np.ndarray:
    speeds: np.ndarray = sums[..., 0] / sums[..., 1]
    return speeds


async def measure(progress: Progress, *, draft: str, drafter: str) -> Measured:
    """Run everything on the embedded target in bfloat16; arms of a prompt follow each other, in turning order."""
    prompts = spread_over(dev_prompts(), _PER_CATEGORY)
    flags = {"draft": ("--drafter", drafter)} if drafter else {}
    config = StackConfig(draft=draft, dtype=Dtype.BFLOAT16.value, arguments=flags)
    arms: tuple[Arm, ...] = (None, *GAMMAS)
    texts: dict[Arm, list[Text]] = {arm: [] for arm in arms}
    async with Stack(config) as stack, AsyncClient(stack.address) as client:
        for arm in arms:
            await _write(client, prompts[0], 0.7, arm=arm, seed=1)
        for number, prompt in enumerate(prompts):
            progress.now(f"real pair: {prompt.id}")
            await warm(client, prompt)
            turn = number % len(arms)
            for temperature in TEMPERATURES:
                for arm in (*arms[turn:], *arms[:turn]):
                    texts[arm].append(await _write(client, prompt, temperature, arm=arm, seed=number))
            progress.done()
    return Measured(texts)


async def _write(client: AsyncClient, prompt: Prompt, temperature: float, *, arm: Arm, seed: int) -> Text:
    made = await client.generate(prompt.messages, max_tokens=_TOKENS, temperature=temperature, gamma=arm, seed=seed)
    return text_of(made.choices[0], prompt.category)
