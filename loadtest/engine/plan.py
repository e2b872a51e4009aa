"""What `foreword bench engine` is told."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from foreword.errors import InvalidField
from foreword.models.dtype import Dtype
from foreword.models.local import check_there
from foreword.models.source import is_synthetic
from foreword.stack.config import StackConfig
from loadtest.prompts import Prompt

LONGEST_PROMPT = 7168
CACHE_TOKENS = 24_576
"""Room of each target: several of them stand beside each other."""
_NO_LIMIT = "65536"


class Part(Enum):
    """One study."""

    ONE = "one"
    BATCH = "batch"
    PASSES = "passes"
    PREFIX = "prefix"
    PROMPT = "prompt"


@dataclass(frozen=True, slots=True)
class Deployment:
    """Services to measure; equal ones are started once."""

    dtype: Dtype
    draft: str | None = None
    whole_prompts: bool = False
    """Whether a prompt is read in one step, however long."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole bench; the defaults of a run of about ten minutes on two cores."""

    parts: frozenset[Part] = frozenset(Part)
    model: str = "embedded"
    threads: int = 1
    tokens: int = 64
    """Output of a session that runs alone."""
    sessions: int = 16
    batch_tokens: int = 40
    """Output of each of the sessions that run together."""
    batch_prompt: int = 16
    """Tokens of each of their prompts: transformers takes seconds for longer ones in bfloat16."""
    peer_tokens: int = 12
    """Output of each sequence of a batch of transformers, whose steps take long."""
    context: int = 256
    """Cached tokens of a session in a timed pass."""
    prefix: int = 1024
    prompt: int = 4096
    beside: int = 8
    """Sessions that run while the long prompt is read."""
    repeats: int = 3
    chats: tuple[Prompt, ...] = ()
    """Of which prompts of all lengths are made; the dev prompts if there are none."""

    def __post_init__(self) -> None:
        for name, least, most in (
            ("threads", 1, 1024),
            ("tokens", 16, 1024),
            ("sessions", 2, 64),
            ("batch_tokens", 16, 256),
            ("batch_prompt", 2, 256),
            ("peer_tokens", 12, 256),
            ("context", 16, 1024),
            ("prefix", 64, 4096),
            ("prompt", 64, LONGEST_PROMPT),
            ("beside", 1, 32),
            ("repeats", 1, 1000),
        ):
            if not least <= getattr(self, name) <= most:
                raise InvalidField(name, getattr(self, name), f"a whole number from {least} to {most}")
        if not self.parts:
            raise InvalidField("only", "", f"one of {', '.join(part.value for part in Part)}")
        check_there(self.model)
        if is_synthetic(self.model):
            raise InvalidField("model", self.model, "a model with weights, which transformers can run as well")

    def stack(self, deployment: Deployment, metrics_port: int) -> StackConfig:
        """Return the services of a deployment, with the port of the target's metrics."""
        flags: tuple[str, ...] = ("--max-tokens", str(CACHE_TOKENS), "--metrics-port", str(metrics_port))
        if deployment.whole_prompts:
            flags += ("--prefill-chunk", _NO_LIMIT, "--max-step-tokens", _NO_LIMIT, "--step-budget-ms", "60000")
        return StackConfig(
            target=self.model,
            draft=deployment.draft,
            dtype=deployment.dtype.value,
            threads=self.threads,
            arguments={"target": flags},
        )

    def json(self) -> dict[str, Any]:
        """Return it as what JSON can say."""
        names = ("model", "threads", "tokens", "sessions", "batch_tokens", "batch_prompt", "peer_tokens")
        return {
            "parts": [part.value for part in Part if part in self.parts],
            **{name: getattr(self, name) for name in (*names, "context", "prefix", "prompt", "beside", "repeats")},
            "prompts": len(self.chats) or "dev",
            "temperature": 0.0,
        }
