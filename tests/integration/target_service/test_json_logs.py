"""What reads the logs of services reads JSON: no library writes anything else beside it while a model is loaded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.unit.models.kit import write_gguf


def test_every_line_is_an_object_while_a_model_is_converted_loaded_and_served(tmp_path: Path) -> None:
    """A GGUF file that was never seen takes the longest way: the readers of transformers draw bars and give advice."""
    model, address = write_gguf(tmp_path / "tiny.gguf"), tmp_path / "address"
    command = ("serve", "target", "--model", str(model), "--log-format", "json", "--address-file", str(address))
    with subprocess.Popen(
        [sys.executable, "-m", "foreword.cli", *command],
        env={**os.environ, "FOREWORD_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
    ) as service:
        try:
            while not address.exists() and service.poll() is None:
                time.sleep(0.05)
        finally:
            service.send_signal(signal.SIGTERM)
            _, err = service.communicate()
    events = [json.loads(line)["event"] for line in err.splitlines()]
    assert service.returncode == 0
    assert events[0] == "listening"
    assert {"loading", "ready"} <= set(events)
