"""Texts with and without a draft, and what can be said about many of them; the arithmetic is pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from foreword.client import AsyncClient
from foreword.protocol.generation import Choice
from loadtest.prompts import Prompt
from loadtest.speedup.plan import Plan, Sampling


@dataclass(frozen=True, slots=True)
class Spent:
    """What texts took: one, or the sums over several, all tokens over all time."""

    tokens: int = 0
    seconds: float = 0.0
    """From the call to the end."""
    decode_s: float = 0.0
    """From the first token to the end."""
    steps: int = 0
    """Steps of the target that emitted something, plain ones included."""
    drafted: int = 0
    accepted: int = 0
    verifications: int = 0
    draft_s: float = 0.0
    """What drafting took, summed over the rounds."""
    verify_s: float = 0.0
    """What the target's steps took, laws and all."""

    def __add__(self, other: Spent) -> Spent:
        """Return both together."""
        return Spent(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))

    @property
    def tokens_per_s(self) -> float:
        """Tokens over the time of whole calls."""
        return self.tokens / self.seconds

    @property
    def acceptance_length(self) -> float:
        """Tokens emitted per step of the target."""
        return self.tokens / max(1, self.steps)

    @property
    def block_length(self) -> float:
        """Candidates of a verified block."""
        return self.drafted / max(1, self.verifications)

    @property
    def kept_share(self) -> float:
        """Candidates kept of those drafted."""
        return self.accepted / max(1, self.drafted)

    @property
    def share_of_formula(self) -> float:
        """Decoding speed over that of rounds which take nothing but drafting and verifying.

        The formula's tokens/s are E / (γ·t_d + t_v) with the measured means of emitted tokens, block length and step
        times (docs/benchmarks.md); as all of them are means over the same rounds, it is a ratio of two times.
        """
        return (self.draft_s + self.verify_s) / self.decode_s if self.decode_s else 0.0

    @property
    def draft_ms(self) -> float:
        """Time of drafting one candidate."""
        return 1e3 * self.draft_s / max(1, self.drafted)

    @property
    def step_ms(self) -> float:
        """Time of a step of the target."""
        return 1e3 * self.verify_s / max(1, self.steps)


@dataclass(frozen=True, slots=True)
class Text:
    """One request."""

    category: str
    spent: Spent


async def write(client: AsyncClient, plan: Plan, prompt: Prompt, law: Sampling, *, gamma: int | None) -> Text:
    """Return what a text took; `gamma` 0 takes no draft, None what the orchestrator chooses."""
    made = await client.generate(
        prompt.messages, max_tokens=plan.tokens, temperature=law.temperature, top_p=law.top_p, gamma=gamma
    )
    return text_of(made.choices[0], prompt.category)


async def warm(client: AsyncClient, prompt: Prompt) -> None:
    """Let the target read the prompt, so that it is cached for all that come."""
    await client.generate(prompt.messages, max_tokens=1, temperature=0.0, gamma=0)


def text_of(choice: Choice, category: str) -> Text:
    """Return what a finished choice says of itself."""
    usage, timings = choice.usage, choice.timings
    parts_s = {part.name: part.sum_us / 1e6 for part in timings.parts}
    spent = Spent(
        tokens=usage.output_tokens,
        seconds=timings.total_us / 1e6,
        decode_s=(timings.total_us - timings.first_token_us) / 1e6,
        steps=usage.verifications + usage.plain_steps,
        drafted=usage.drafted_tokens,
        accepted=usage.accepted_tokens,
        verifications=usage.verifications,
        draft_s=parts_s.get("draft_compute", 0.0),
        verify_s=parts_s.get("verify_compute", 0.0),
    )
    return Text(category, spent)


def totals(texts: Iterable[Text]) -> Spent:
    """Return the sums."""
    return sum((text.spent for text in texts), Spent())
