"""Chi-square of text that went through three processes and real gRPC, for every rule; and planted bugs are seen.

Under `match` seeds fix the texts; under `token` and `block` every attempt has a random salt, so that an honest run
fails once in 1 / GATE.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from foreword.client import AsyncClient
from foreword.laws.parameters import LawParameters
from foreword.models.source import parse_source
from foreword.protocol.words import Rule
from foreword.stack.config import StackConfig
from foreword.stack.stack import Stack
from loadtest.exactness.plan import SYNTHETIC, synthetic_stack
from loadtest.exactness.sampled import SampledFindings, SampledPlan, sampled

pytestmark = [pytest.mark.e2e]

GATE = 1e-4
LAW = LawParameters(temperature=1.5)
EDITED = LawParameters(temperature=2.0, top_p=0.9, repetition_penalty=1.1, frequency_penalty=0.3)
COARSE = ("--total-bits", "2")
"""Integer counts that sum to 4: where they are rounded matters."""
SHARE, FULL = 20, 1000
"""Texts for each case."""


def stack_of(*, match_draw: str = "coupled", bug: str | None = None) -> StackConfig:
    """Return a synthetic pair, with a bug or without."""
    config = synthetic_stack(match_draw)
    coarse = {"draft": (*config.arguments["draft"], *COARSE)}
    config = replace(config, arguments=coarse, grace_s=2.0)
    if bug is not None:  # and blocks of one length, so that a busy machine, which makes them short, does not hide it
        config = replace(config, arguments={**coarse, "orchestrator": ("--no-stop-rule",)})
        config = replace(config, command=(sys.executable, "-m", "tests.e2e.planted", bug))
    return config


async def findings_of(config: StackConfig, *plans: SampledPlan) -> list[SampledFindings]:
    model = parse_source(SYNTHETIC).synthetic
    assert model is not None
    async with Stack(config) as stack, AsyncClient(stack.address) as client:
        return [await sampled(client, model, plan) for plan in plans]


def check(findings: list[SampledFindings], *, cases: int) -> None:
    for one in findings:
        assert one.accepted > one.tokens // 20, "candidates were kept"
        assert one.drafted > one.accepted, "and refused"
        assert one.p_value > GATE / cases


async def test_every_rule_gives_the_law_of_the_target() -> None:
    plans = [SampledPlan(rule, law, texts=SHARE) for rule in Rule for law in (LAW, EDITED)]
    check(await findings_of(stack_of(), *plans), cases=8)


@pytest.mark.parametrize("match_draw", ["sampled", "argmax"])
async def test_match_gives_the_law_of_the_target_however_candidates_are_drawn(match_draw: str) -> None:
    check(await findings_of(stack_of(match_draw=match_draw), SampledPlan(Rule.MATCH, EDITED, texts=SHARE)), cases=8)


# So many texts that the p-value of a bug is under 1e-9, seed by seed.
BUGS = [
    ("rounds_after_sampling", Rule.TOKEN, "coupled", 80),  # some blocks are late where the machine is busy
    ("lies_about_its_law", Rule.BLOCK, "coupled", 12),
    # A coupled draft of a synthetic pair misses independently of what the target draws, and would hide this one.
    ("samples_afresh", Rule.MATCH, "argmax", 20),
    # Small: the residual of a synthetic pair is nearly its target's law.
    pytest.param("forgets_the_residual_mass", Rule.BLOCK, "coupled", 600, marks=pytest.mark.full),
]


@pytest.mark.parametrize(("bug", "rule", "match_draw", "texts"), BUGS)
async def test_a_planted_bug_is_seen(bug: str, rule: Rule, match_draw: str, texts: int) -> None:
    # Some texts first: kernels that are compiled at their first use make blocks late, and sessions with many late
    # blocks go on under `match`, which hides what is planted.
    plans = [SampledPlan(rule, LAW, texts=4, first_seed=100_000), SampledPlan(rule, LAW, texts=texts)]
    _, found = await findings_of(stack_of(bug=bug, match_draw=match_draw), *plans)
    assert found.accepted > found.tokens // 20
    assert found.p_value < GATE


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("match_draw", ["coupled", "sampled", "argmax"])
async def test_every_rule_gives_the_law_of_the_target_to_the_third_digit(match_draw: str) -> None:
    rules = Rule if match_draw == "coupled" else (Rule.MATCH,)
    plans = [SampledPlan(rule, law, texts=FULL) for rule in rules for law in (LAW, EDITED)]
    check(await findings_of(stack_of(match_draw=match_draw), *plans), cases=10)
