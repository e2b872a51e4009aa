"""How long an engine may take to start is a setting of both services that have one."""

from __future__ import annotations

import pytest

import draft_service.service
import target_service.service
from draft_service.settings import DraftSettings
from foreword.engine.process import EngineOptions
from foreword.settings.base import ServerSettings
from target_service.settings import TargetSettings


@pytest.mark.parametrize("kind", [TargetSettings, DraftSettings])
def test_it_reaches_the_engine(kind: type[ServerSettings]) -> None:
    assert options_of(kind()) == options_of(kind(start_timeout_s=600.0))
    options = options_of(kind(start_timeout_s=1800.0, threads=3))
    assert options.start_timeout_s == 1800.0
    assert options.environment["OMP_NUM_THREADS"] == "3"


def options_of(settings: ServerSettings) -> EngineOptions:
    if isinstance(settings, TargetSettings):
        return target_service.service.engine_options(settings)
    assert isinstance(settings, DraftSettings)
    return draft_service.service.engine_options(settings)
