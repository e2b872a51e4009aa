"""How many tokens of keys and values fit into memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from foreword.errors import InvalidField
from foreword.runner.budget import CacheBudget
from foreword.runner.layers import CacheShape
from foreword.runner.memory import available_bytes
from foreword.runner.paged import PagedRunner
from foreword.runner.real import real_runner
from tests.unit.runner.tiny import LONGEST, V, config, module


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
    (group / "memory.stat").write_text("anon 20000\nfile 70000\ninactive_file 60000\n")  # weights that were read
    assert available_bytes(meminfo, group) == 560_000


def test_without_linux_memory_is_what_the_machine_has(tmp_path: Path) -> None:
    assert available_bytes(tmp_path / "none", tmp_path) >= available_bytes(group=tmp_path)


def test_pages_are_what_fits_into_a_share_of_the_memory() -> None:
    shape = CacheShape(layers=30, groups=3, size=64)
    assert shape.token_bytes(4) == 2 * 30 * 3 * 64 * 4
    budget = CacheBudget(memory_share=0.5)
    assert budget.pages(shape, itemsize=4, free_bytes=1_000_000_000) == 500_000_000 // (16 * 46_080)
    with pytest.raises(InvalidField, match=r"memory_share: got 0\.5, wanted a share of 1000 free bytes"):
        budget.pages(shape, itemsize=4, free_bytes=1_000)
    assert CacheBudget(100, spare_pages=3).pages(shape, itemsize=4, free_bytes=100 * 46_080) == 7 + 3
    with pytest.raises(InvalidField, match="max_tokens: got 100, wanted at most 99, which take the 4561920 bytes free"):
        CacheBudget(100).pages(shape, itemsize=4, free_bytes=99 * 46_080)


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("page_size", [16, 5])
def test_the_least_cache_holds_what_a_model_is_checked_with(deterministic: bool, page_size: int) -> None:
    text = 40 if deterministic else 7
    least = 2 * page_size * -(-text // page_size)
    assert made(least, page_size, deterministic).memory.free == least // page_size
    with pytest.raises(InvalidField, match=rf"max_tokens: got {least - page_size}, wanted at least {least} tokens"):
        made(least - page_size, page_size, deterministic)


def test_rotations_are_tabled_for_what_the_cache_holds_and_not_for_a_million_tokens() -> None:
    run = made(64, 16, deterministic=False, longest_context=1_000_000)
    assert run.longest_context == 64
    assert run._model._kind.cosines.shape == (64, 4)  # type: ignore[attr-defined]


def made(tokens: int, page_size: int, deterministic: bool, longest_context: int = LONGEST) -> PagedRunner:
    return real_runner(
        module(config("llama")),
        vocabulary_size=V,
        longest_context=longest_context,
        budget=CacheBudget(tokens, page_size=page_size),
        deterministic=deterministic,
    )
