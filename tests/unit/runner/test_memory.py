"""How many tokens of keys and values fit into memory."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from foreword.errors import InvalidField
from foreword.runner.memory import available_bytes, token_bytes, tokens_that_fit


def test_tokens_that_fit_leave_room_for_buffers_that_double() -> None:
    assert tokens_that_fit(1_000_000, 0.5, token_bytes=100) == 2_500
    with pytest.raises(InvalidField, match=r"memory_share: got 0\.1"):
        tokens_that_fit(1_000, 0.1, token_bytes=100)


def test_memory_is_what_machine_and_control_group_leave(tmp_path: Path) -> None:
    meminfo, group = tmp_path / "meminfo", tmp_path / "group"
    meminfo.write_text("MemTotal:  2000 kB\nMemAvailable:    1000 kB\n")
    assert available_bytes(meminfo, group) == 1_024_000
    group.mkdir()
    (group / "memory.max").write_text("max\n")
    (group / "memory.current").write_text("5\n")
    assert available_bytes(meminfo, group) == 1_024_000
    (group / "memory.max").write_text("600000\n")
    (group / "memory.current").write_text("100000\n")
    assert available_bytes(meminfo, group) == 500_000


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"num_key_value_heads": 3}, 2 * 30 * 3 * 64 * 4),
        ({}, 2 * 30 * 9 * 64 * 4),
        ({"num_key_value_heads": 3, "head_dim": 32}, 2 * 30 * 3 * 32 * 4),
        ({"num_key_value_heads": None, "head_dim": None}, 2 * 30 * 9 * 64 * 4),
    ],
)
def test_a_token_takes_keys_and_values_of_all_layers(fields: dict[str, int | None], wanted: int) -> None:
    config = SimpleNamespace(num_hidden_layers=30, num_attention_heads=9, hidden_size=576, **fields)
    assert token_bytes(config, 4) == wanted
