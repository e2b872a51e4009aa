"""Every runner, empty."""

from __future__ import annotations

import pytest

from foreword.runner.port import Runner
from tests.contract.runner.runners import RUNNERS, emptied


@pytest.fixture(params=RUNNERS, scope="module")
def shared(request: pytest.FixtureRequest) -> Runner:
    runner: Runner = request.param()
    return runner


@pytest.fixture
def runner(shared: Runner) -> Runner:
    return emptied(shared)
