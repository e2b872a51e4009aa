"""Sampled text of synthetic models through running services against the laws that the models define."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from foreword.client import AsyncClient
from foreword.laws.law import Law
from foreword.laws.parameters import LawParameters
from foreword.laws.pipeline import LawRows, target_laws
from foreword.models.synthetic import SyntheticModel
from foreword.protocol.digest import EMPTY, extend
from foreword.protocol.generation import Choice, GenerateRequest, Speculation, TokenPrompt
from foreword.protocol.messages import Tokens
from foreword.protocol.words import Rule, TokenSource
from foreword.testing.synthetic_laws import SyntheticLaws
from loadtest.exactness.many import at_most
from loadtest.exactness.score import Numbers, ScoreTest, by_rank

PROMPT: Tokens = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class SampledPlan:
    """How many texts are sampled, and from which law."""

    rule: Rule
    law: LawParameters = field(default_factory=LawParameters)
    texts: int = 200
    tokens: int = 96
    gamma: int = 3
    first_seed: int = 0
    side_by_side: int = 64


@dataclass(frozen=True, slots=True)
class SampledFindings:
    """How the texts agree with their law."""

    joint_p: float
    """Tokens against their laws, by the ranks of the two tokens before: the joint law of three tokens in a row."""
    written_p: float
    """Tokens against their laws, by how many candidates in a row were kept just before, and who wrote the last token:
    what was accepted tells nothing of the next token."""
    ids_p: float
    """Tokens against their laws, by their own ids and who wrote the last token."""
    tokens: int
    verifications: int
    drafted: int
    accepted: int
    late: int

    @property
    def p_value(self) -> float:
        """The smallest of the three, for three tests (Bonferroni)."""
        return min(1.0, 3.0 * min(self.joint_p, self.written_p, self.ids_p))

    def json(self) -> dict[str, Any]:
        """Return it as what JSON can say."""
        facts = {name: getattr(self, name) for name in self.__slots__}
        return {**facts, "p_value": self.p_value}


async def sampled(client: AsyncClient, model: SyntheticModel, plan: SampledPlan) -> SampledFindings:
    """Sample one text for each seed, and test all their tokens."""

    async def ask(seed: int) -> Choice:
        request = GenerateRequest(
            TokenPrompt(PROMPT),
            law=plan.law,
            max_tokens=plan.tokens,
            seed=seed,
            speculation=Speculation(gamma=plan.gamma, rule=plan.rule),
        )
        return (await client.generate(request)).choices[0]

    seeds = range(plan.first_seed, plan.first_seed + plan.texts)
    return judge(model, plan.law, await at_most(plan.side_by_side, seeds, ask))


def judge(model: SyntheticModel, law: LawParameters, choices: list[Choice]) -> SampledFindings:
    """Test the tokens of finished texts."""
    laws = SyntheticLaws(model)
    joint, written, ids = ScoreTest(), ScoreTest(), ScoreTest()
    for choice in choices:
        before: tuple[int, int] = (-1, -1)
        kept = 0
        last = TokenSource.TARGET
        for token, source, one in zip(choice.ids, choice.sources, _laws(laws, law, choice.ids), strict=True):
            probabilities = _dense(one, model.vocabulary)
            cells, cell = by_rank(probabilities, token)
            joint.add(before, cells, cell)
            written.add((kept, last), cells, cell)
            ids.add(last, probabilities, token)
            before = (before[1], int((probabilities > probabilities[token]).sum()))
            kept, last = (0 if source is TokenSource.TARGET else kept + 1), source
    usages = [choice.usage for choice in choices]
    return SampledFindings(
        joint_p=joint.p_value,
        written_p=written.p_value,
        ids_p=ids.p_value,
        tokens=joint.tokens,
        verifications=sum(usage.verifications for usage in usages),
        drafted=sum(usage.drafted_tokens for usage in usages),
        accepted=sum(usage.accepted_tokens for usage in usages),
        late=sum(usage.late_blocks for usage in usages),
    )


def _laws(laws: SyntheticLaws, parameters: LawParameters, output: Tokens) -> list[Law]:
    """Return the target's law before each token of an output."""
    digests = np.fromiter(_digests(output), dtype=np.uint64, count=len(output))
    (found,) = target_laws([LawRows(parameters, laws.target(digests), prompt=PROMPT, candidates=output[:-1])])
    return found


def _digests(output: Tokens) -> Iterator[int]:
    digest = extend(EMPTY, PROMPT)
    for token in output:
        yield digest
        digest = extend(digest, (token,))


def _dense(law: Law, vocabulary: int) -> Numbers:
    if law.ids is None:
        return law.probabilities
    dense = np.zeros(vocabulary)
    dense[law.ids] = law.probabilities
    return dense
