"""What is put into the environment, and when."""

import subprocess
import sys

import pytest

from foreword.settings.environment import use_direct_poller


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
