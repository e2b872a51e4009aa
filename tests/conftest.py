"""What holds for every test: no network, no spinning threads, the same examples, and GPU tests only on a GPU."""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

from foreword.settings.environment import use_own_kernels

# Before anything imports torch or a hub client; processes that tests start inherit it.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["OMP_WAIT_POLICY"] = "passive"
use_own_kernels()

# A shell starts background jobs with SIGINT ignored, and processes that tests start would inherit that too.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A machine that is slow for a moment breaks no promise, so nothing is timed. `make test` tries the same examples
# everywhere; `make test-full` looks for new ones (--hypothesis-profile=search).
settings.register_profile("same", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("same")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a GPU test where torch finds no CUDA device."""
    if item.get_closest_marker("gpu") is not None:
        torch = pytest.importorskip("torch")
        if not torch.cuda.is_available():
            pytest.skip("no CUDA device")
