"""The doctor's judgements, one planted fault at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from foreword.cli.checks import Health, deployment_checks, draft_check, plain_check, untried_check
from foreword.protocol.generation import Choice, DeploymentInfo, Finish, Timings, Usage
from foreword.protocol.info import ModelInfo, ServerInfo
from foreword.protocol.words import Drafter, FinishReason
from foreword.testing.mock_server import mock_info
from orchestrator.pools.identity import target_misfit

HEALTHY = mock_info()
TARGET, DRAFT = HEALTHY.targets[0], HEALTHY.drafts[0]
MODEL = HEALTHY.model
assert MODEL is not None


def with_draft_model(**changes: object) -> DeploymentInfo:
    assert DRAFT.info is not None
    assert MODEL is not None
    model: ModelInfo = replace(MODEL, **changes)  # type: ignore[arg-type]
    return replace(HEALTHY, drafts=(replace(DRAFT, info=replace(DRAFT.info, model=model)),))


def findings(info: DeploymentInfo) -> list[tuple[str, Health, str]]:
    return [(c.name, c.health, c.detail) for c in deployment_checks(info) if c.health is not Health.OK]


def choice(ids: tuple[int, ...] = (1, 2, 3), us: int = 0, **usage: int) -> Choice:
    finish = Finish(0, FinishReason.LENGTH, usage=Usage(output_tokens=len(ids), **usage), timings=Timings(0, 0, us))
    return Choice(0, "x", ids, (), None, finish)


def test_a_healthy_deployment_has_no_findings() -> None:
    checks = list(deployment_checks(HEALTHY))
    assert findings(HEALTHY) == []
    assert [check.name for check in checks] == [
        "version",
        "target mock-target:1",
        "draft mock-draft:1",
        "draft mock-draft:1 and target",
    ]
    assert checks[2].detail == "up, round trip 0.10 ms, mock in float32, trusted"


def test_an_untrusted_draft_and_a_lookup_draft_are_well_and_said() -> None:
    assert DRAFT.info is not None
    lookup = replace(DRAFT, trusted=False, info=replace(DRAFT.info, model=None, drafter=Drafter.LOOKUP))
    checks = list(deployment_checks(replace(HEALTHY, drafts=(lookup,))))
    assert checks[-1].detail == "up, round trip 0.10 ms, lookup, not trusted: rule match only"


@pytest.mark.parametrize(
    ("info", "name", "health", "detail"),
    [
        (replace(HEALTHY, protocol_min=7, protocol_max=9), "version", Health.FAILED, "protocol 7 to 9, wanted one of"),
        (replace(HEALTHY, version="9.9"), "version", Health.WARNING, "0.1.0, 9.9 there, 0.1.0 here"),
        (replace(HEALTHY, targets=()), "targets", Health.FAILED, "none is configured"),
        (replace(HEALTHY, drafts=()), "drafts", Health.WARNING, "none is configured"),
        (
            replace(HEALTHY, targets=(replace(TARGET, up=False, last_error="refused"),)),
            "target mock-target:1",
            Health.FAILED,
            "down: refused",
        ),
        (
            replace(HEALTHY, drafts=(replace(DRAFT, up=False, info=None),)),
            "draft mock-draft:1",
            Health.WARNING,
            "down: not reached yet",
        ),
        (
            with_draft_model(tokenizer_digest="2" * 64),
            "draft mock-draft:1 and target",
            Health.FAILED,
            "vocabulary 65536 (22222222), wanted the target's 65536 (11111111)",
        ),
        (
            with_draft_model(vocabulary_size=65000),
            "draft mock-draft:1 and target",
            Health.FAILED,
            "vocabulary 65000 (11111111), wanted the target's 65536",
        ),
        (
            with_draft_model(longest_context=512),
            "draft mock-draft:1 and target",
            Health.WARNING,
            "the draft reads 512 tokens, the target 4096",
        ),
    ],
)
def test_each_fault_is_found_and_nothing_else(info: DeploymentInfo, name: str, health: Health, detail: str) -> None:
    ((found, how, what),) = findings(info)
    assert (found, how) == (name, health)
    assert what.startswith(detail)
    assert all(check.mend for check in deployment_checks(info) if check.health is not Health.OK)


def test_targets_with_different_weights_are_found() -> None:
    assert TARGET.info is not None
    assert TARGET.info.model is not None
    other = replace(TARGET.info, model=replace(TARGET.info.model, weights_digest="3" * 64, name="other"))
    two = replace(HEALTHY, targets=(TARGET, replace(TARGET, address="b:2", info=other)))
    assert findings(two) == [("targets' weights", Health.FAILED, "differ: mock-target:1: mock, b:2: other")]


@pytest.mark.parametrize(
    ("why", "mend"),
    [
        ("protocol version: the peer speaks 2 to 2, this end 1 to 1; wanted one in common", "install one release"),
        ("Method not found!", "a service of another kind"),
        ("Hostname Verification Check failed.", "by a name that its certificate has"),
        ("Connection refused", "start it, or look at the network"),
    ],
)
def test_who_answers_and_cannot_be_used_does_not_have_to_be_started(why: str, mend: str) -> None:
    (found,) = (
        check
        for check in deployment_checks(replace(HEALTHY, targets=(replace(TARGET, up=False, last_error=why),)))
        if check.health is not Health.OK
    )
    assert mend in found.mend


def test_who_is_loading_is_waited_for() -> None:
    loading = replace(HEALTHY, targets=(replace(TARGET, up=False, info=None, last_error="the model is being loaded"),))
    (check,) = [check for check in deployment_checks(loading) if check.health is Health.FAILED]
    assert check.mend.startswith("wait")


def test_a_draft_that_starts_again_is_waited_for_and_not_judged_by_what_it_was() -> None:
    why = "draft: the engine is not ready yet"
    again = replace(HEALTHY, drafts=(replace(DRAFT, up=False, last_error=why),))
    (check,) = [check for check in deployment_checks(again) if check.health is Health.WARNING]
    assert (check.detail, check.mend) == (f"down: {why}", "wait; large models take minutes to load")
    assert "draft mock-draft:1 and target" not in [check.name for check in deployment_checks(again)]
    untried = untried_check(again)
    assert untried is not None
    assert (untried.name, untried.health) == ("drafted decoding", Health.WARNING)
    assert untried_check(replace(HEALTHY, drafts=())) is None


OTHERS = ModelInfo("m", "source", "1" * 64, "2" * 64, 64, 99, "float32")


@pytest.mark.parametrize(
    "model",
    [
        None,
        replace(OTHERS, name="x"),
        replace(OTHERS, weights_digest="3" * 64),
        replace(OTHERS, dtype="bfloat16"),
        replace(OTHERS, vocabulary_size=65),
        replace(OTHERS, tokenizer_digest="3" * 64),
    ],
)
def test_a_target_that_serves_something_else_is_up_and_does_not_have_to_be_started(model: ModelInfo | None) -> None:
    why = target_misfit(OTHERS, ServerInfo(model, "i", "a:1", "0.1.0", 1, 1))
    misfit = replace(HEALTHY, targets=(TARGET, replace(TARGET, up=False, info=None, last_error=why)))
    (check,) = [check for check in deployment_checks(misfit) if check.health is Health.FAILED]
    assert (check.detail, check.mend) == (f"not used: {why}", "serve the same model there, or take it out of --targets")


def test_generations_are_judged() -> None:
    assert plain_check(choice(us=200_000)).detail == "3 tokens, 10.0 tok/s"
    assert plain_check(choice(())).health is Health.FAILED
    good = draft_check(choice(us=500, verifications=2, accepted_tokens=1), choice(us=1000), HEALTHY)
    assert (good.health, good.detail) == (
        Health.OK,
        "same ids, acceptance length 1.50, 0 late blocks, 2.00 times plain decoding's speed",
    )
    slow = draft_check(choice(us=2000, verifications=2, accepted_tokens=1), choice(us=1000), HEALTHY)
    assert slow.health is Health.WARNING
    assert slow.detail.endswith("0.50 times plain decoding's speed")
    assert "smaller γ" in slow.mend
    late = draft_check(choice(late_blocks=5), choice(), HEALTHY)
    assert (late.health, late.detail) == (Health.WARNING, "no block was verified (5 late)")
    other = draft_check(choice((1, 9, 3)), choice(), HEALTHY)
    assert (other.health, other.detail) == (Health.WARNING, "differs from plain decoding at output position 1")


def test_what_to_do_where_no_block_was_verified_depends_on_the_draft() -> None:
    assert DRAFT.info is not None
    lookup = replace(HEALTHY, drafts=(replace(DRAFT, info=replace(DRAFT.info, model=None, drafter=Drafter.LOOKUP)),))
    for info, usage, mend in (
        (HEALTHY, choice(), "wait for the draft"),
        (lookup, choice(), "try it on a text that repeats itself"),
        (lookup, choice(late_blocks=5), "wait for the draft"),
        (with_draft_model(vocabulary_size=65000), choice(), "mend the draft that failed above"),
    ):
        assert draft_check(usage, choice(), info).mend.startswith(mend)
