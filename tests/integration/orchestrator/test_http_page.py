"""docs/http.md: its commands and its Python run as they stand there, but for the address; it names every field."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

import pytest

from orchestrator.http.fields import ChatRequest, CompletionRequest, Speculative, StreamOptions, StructuredOutputs
from tests.integration.orchestrator.web import client_of, web

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "http.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = re.findall(r"```\n(curl .*?)```", PAGE, re.DOTALL)
LETTERS = "synthetic:vocab=400,letters=1,eos=0.001,step_ms=0.5,agreement=0.8,seed=3,context=1024"
URL = "http://127.0.0.1:8000"


async def test_what_the_page_shows_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(PYTHON) == 3
    async with web(tmp_path, model=LETTERS, trust=("all",)) as served:
        for block in PYTHON:
            code = compile(block.replace(URL, served.url), "docs/http.md", "exec")
            await asyncio.to_thread(exec, code, {"__name__": "page"})
        shown = capsys.readouterr().out.splitlines()  # between lines of the log
        for form in ("name='.*' red=[0-9]+", "#[0-9a-f]{6}", "red|green", r"\(*x\)*"):
            assert any(re.fullmatch(form, line) for line in shown)
        if shutil.which("curl") is None:
            return
        for command in COMMANDS:
            shell = await asyncio.create_subprocess_shell(
                command.replace(URL, served.url), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
            )
            out, _ = await shell.communicate()
            assert shell.returncode == 0
            assert b'"chat.completion"' in out


async def test_the_page_names_every_endpoint(tmp_path: Path) -> None:
    async with web(tmp_path, drafts=0) as served, client_of(served.url) as client:
        paths = (await client.get("/openapi.json")).json()["paths"]
    for path in paths:
        assert path.replace("{model}", "{id}") in PAGE


def test_the_page_names_every_field() -> None:
    named = set(re.findall(r"`(\w+)`", PAGE))
    known = {
        name for kind in (ChatRequest, CompletionRequest, Speculative, StreamOptions) for name in kind.model_fields
    }
    known |= {info.alias or name for name, info in StructuredOutputs.model_fields.items()}
    assert known - named == set()
