"""The Python of docs/usage.md runs as it stands there, but for the address."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import foreword
from foreword.client.fields import READERS
from foreword.testing.mock_server import MockServer, Reply

PAGE = (Path(foreword.__file__).parents[1] / "docs" / "usage.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_its_python_runs(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    with MockServer(Reply("Hello there.", accepted=2)) as server:
        exec(compile(block.replace("127.0.0.1:50051", server.address), "docs/usage.md", "exec"), {"__name__": "usage"})
    asks_itself = "MockServer" in block  # and asserts what it gets
    assert server.requests or asks_itself
    assert "Hello there." in capsys.readouterr().out or "except" in block or asks_itself


def test_it_names_every_keyword() -> None:
    table = PAGE[PAGE.index("| keyword |") : PAGE.index("The [contract]")]
    first_column = "".join(re.findall(r"^\|([^|]*)\|", table, re.MULTILINE))
    assert set(re.findall(r"`(\w+)`", first_column)) == {*READERS, "timeout_s"}
