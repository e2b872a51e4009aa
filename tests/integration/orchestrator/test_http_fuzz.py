"""Requests that the description of the API allows, and some that it does not: no answer contradicts it (schemathesis).

That what it allows is always accepted cannot be: which ids there are, and how long a text may be, depends on the model.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tests.integration.orchestrator.web import client_of, web

COMMAND = (
    *("run", "--phases", "coverage,fuzzing", "--max-examples", "30", "--seed", "1", "--workers", "1"),
    *("--request-timeout", "300", "--exclude-checks", "positive_data_acceptance", "--no-color"),
)


@pytest.mark.slow
async def test_no_answer_contradicts_the_description(tmp_path: Path) -> None:
    async with web(tmp_path, trust=("all",)) as served:
        program = (sys.executable, "-m", "schemathesis.cli", *COMMAND, f"{served.url}/openapi.json")
        fuzzing = await asyncio.create_subprocess_exec(
            *program, cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        out, _ = await fuzzing.communicate()
        assert fuzzing.returncode == 0, out.decode()[-4_000:]
        async with client_of(served.url) as client:
            assert "foreword_requests_running 0.0" in (await client.get("/metrics")).text
