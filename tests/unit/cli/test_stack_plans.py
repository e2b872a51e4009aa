"""The command lines of a stack's services fit together."""

from __future__ import annotations

from pathlib import Path

import pytest

from draft_service.settings import DraftSettings
from foreword.stack.config import USUAL_GAMMA_MAX, ServicePlan, StackConfig, plan_drafts, plan_orchestrator, plan_target
from orchestrator.settings import OrchestratorSettings
from target_service.settings import TargetSettings

TARGET = "127.0.0.1:1"
DEFAULTS = (TargetSettings().gamma_max, DraftSettings().gamma_max, OrchestratorSettings(targets=TARGET).gamma_max)


def plans(config: StackConfig) -> list[ServicePlan]:
    folder = Path("nowhere")
    front = plan_orchestrator(config, folder, target=TARGET, drafts=["127.0.0.1:2"])
    return [plan_target(config, folder), *plan_drafts(config, folder), front]


def given(plan: ServicePlan, flag: str) -> int | None:
    return int(plan.argv[plan.argv.index(flag) + 1]) if flag in plan.argv else None


@pytest.mark.parametrize("gamma", [None, 0, 4, USUAL_GAMMA_MAX, USUAL_GAMMA_MAX + 1, 20, 40, 256])
def test_every_service_takes_the_blocks_that_are_asked_for(gamma: int | None) -> None:
    *others, front = plans(StackConfig(gamma=gamma))
    assert given(front, "--gamma") == gamma
    for plan, default in zip((*others, front), DEFAULTS, strict=True):
        assert (given(plan, "--gamma-max") or default) >= (gamma or 0)
    most = given(front, "--gamma-max") or DEFAULTS[-1]
    settings = OrchestratorSettings(
        gamma=gamma or 0, gamma_max=most, targets=("127.0.0.1:1",)
    )  # refuses what does not fit
    assert settings.gamma_max == most
    DraftSettings(gamma_max=given(others[1], "--gamma-max") or DEFAULTS[1]).engine_config()


def test_what_is_usual_is_what_services_do_without_being_told() -> None:
    assert min(DEFAULTS) == USUAL_GAMMA_MAX


def test_the_orchestrator_is_told_where_http_is() -> None:
    *_, front = plans(StackConfig(http_port=8123))
    assert front.argv[front.argv.index("--http-listen") + 1] == "127.0.0.1:8123"
    assert front.argv[front.argv.index("--http-address-file") + 1] == "nowhere/orchestrator.http"
    *_, front = plans(StackConfig())
    assert "--http-listen" not in front.argv
