"""What the bench of speed-ups runs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import Any

from foreword.errors import InvalidField
from foreword.models.dtype import Dtype
from foreword.models.local import check_there
from foreword.models.source import is_synthetic
from foreword.stack.config import StackConfig
from loadtest.prompts import Prompt


@dataclass(frozen=True, slots=True)
class Sampling:
    """A law that texts are drawn with."""

    temperature: float
    top_p: float | None = None

    @property
    def name(self) -> str:
        """What tables call it."""
        return f"T {self.temperature:g}" + ("" if self.top_p is None else f", top-p {self.top_p:g}")


DRAFTERS = ("model", "mixed", "lookup")
LAWS = (Sampling(0.0), Sampling(0.7, 0.95), Sampling(1.0))


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole bench."""

    prompts: tuple[Prompt, ...]
    model: str = "embedded"
    draft: str = "bundled"
    drafter: str = ""
    """`mixed`, `model` or `lookup`; empty takes what the draft is."""
    dtype: Dtype = Dtype.BFLOAT16
    gamma: int | None = None
    """Candidates of a block; None leaves it to the orchestrator."""
    tokens: int = 128
    laws: tuple[Sampling, ...] = LAWS
    threads: int = 0
    assisted: int = 10
    """Prompts that transformers' assisted generation answers as well; 0 leaves it out."""

    def __post_init__(self) -> None:
        for name, least, most in (("gamma", 1, 64), ("tokens", 8, 4096), ("assisted", 0, 10_000)):
            if getattr(self, name) is not None and not least <= getattr(self, name) <= most:
                raise InvalidField(name, getattr(self, name), f"a whole number from {least} to {most}")
        if self.drafter not in ("", *DRAFTERS):
            raise InvalidField("drafter", self.drafter, f"one of {', '.join(DRAFTERS)}")
        check_there(self.model)
        if is_synthetic(self.model):
            raise InvalidField("model", self.model, "a model with weights")
        if model := self.stack().draft_model:
            check_there(model, field="draft", distilled=True)

    @property
    def manner(self) -> str:
        """How γ is found, for people."""
        return "γ as measured" if self.gamma is None else f"γ {self.gamma}"

    def stack(self) -> StackConfig:
        """Return the services: one draft, one target, one orchestrator."""
        flags = ("--drafter", self.drafter) if self.drafter else ()
        return StackConfig(
            target=self.model,
            draft=self.draft,
            dtype=self.dtype.value,
            gamma=self.gamma,
            threads=self.threads,
            arguments={"draft": flags},
        )

    def json(self) -> dict[str, Any]:
        """Return it as what JSON can say."""
        names = ("model", "draft", "drafter", "gamma", "tokens", "threads", "assisted")
        return {
            **{name: getattr(self, name) for name in names},
            "dtype": self.dtype.value,
            "prompts": len(self.prompts),
            "laws": [asdict(law) for law in self.laws],
        }


def spread_over(prompts: tuple[Prompt, ...], per_category: int) -> tuple[Prompt, ...]:
    """Return the first prompts of every category; all if the number is 0."""
    if per_category < 0:
        raise InvalidField("per_category", per_category, "a whole number from 0")
    taken: defaultdict[str, int] = defaultdict(int)
    kept = []
    for prompt in prompts:
        taken[prompt.category] += 1
        if not per_category or taken[prompt.category] <= per_category:
            kept.append(prompt)
    return tuple(kept)
