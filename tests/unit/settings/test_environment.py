"""What is put into the environment, and when."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from foreword.errors import InvalidField
from foreword.settings.environment import cache_folder, kernels_folder, use_direct_poller, use_own_kernels


def test_grpc_polls_directly_unless_it_is_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRPC_EXPERIMENTS", "")  # so that it is put back afterwards
    monkeypatch.delenv("GRPC_EXPERIMENTS")
    use_direct_poller()
    use_direct_poller()
    assert subprocess.run(["printenv", "GRPC_EXPERIMENTS"], capture_output=True, text=True, check=True).stdout == (
        "-event_engine_client,-event_engine_listener\n"
    )
    monkeypatch.setenv("GRPC_EXPERIMENTS", "")
    use_direct_poller()
    assert subprocess.run(["printenv", "GRPC_EXPERIMENTS"], capture_output=True, text=True, check=True).stdout == "\n"


def test_the_command_chooses_before_grpc_is_imported() -> None:
    """gRPC reads the choice when it is imported."""
    code = "import sys, foreword.cli, foreword.cli.app; sys.exit('grpc' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_cache_of_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs under a number of its own."""

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("FOREWORD_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(InvalidField, match=r"cache: got None, wanted a folder, .*flag --cache or FOREWORD_CACHE"):
        cache_folder()
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache_folder() == Path("/caches/foreword")


def test_models_of_this_process_keep_their_kernels_by_the_state_of_their_sources(monkeypatch):
    monkeypatch.delenv("OMP_WAIT_POLICY")
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    use_own_kernels()
    assert os.environ["NUMBA_CACHE_DIR"] == str(kernels_folder(cache_folder()))
    assert os.environ["OMP_WAIT_POLICY"] == "passive"
    monkeypatch.setenv("NUMBA_CACHE_DIR", "mine")
    use_own_kernels()
    assert os.environ["NUMBA_CACHE_DIR"] == "mine"
