"""What holds for every test: no network, no spinning threads, and GPU tests only where there is a GPU."""

import os

import pytest

# Before anything imports torch or a hub client; processes that tests start inherit it.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["OMP_WAIT_POLICY"] = "passive"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a GPU test where torch finds no CUDA device."""
    if item.get_closest_marker("gpu") is not None:
        torch = pytest.importorskip("torch")
        if not torch.cuda.is_available():
            pytest.skip("no CUDA device")
