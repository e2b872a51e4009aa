"""Deterministic mode: the same bits for a context, however it came about; what cannot promise that is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from foreword.errors import Mismatch
from foreword.runner import real, ways
from foreword.runner.budget import CacheBudget
from foreword.runner.deterministic import FixedRowsLinear, check_deterministic
from foreword.runner.fused.layers import run_layers
from foreword.runner.paged import PagedRunner
from foreword.runner.port import Rows
from tests.unit.runner.tiny import LONGEST, V, config, module

FAMILY = ["llama", "qwen3", "gemma2"]
TEXT = tuple(int(i) for i in np.random.default_rng(2).integers(0, V, 90))
DTYPES = [torch.float32, torch.bfloat16]


def runner(family: str, dtype: torch.dtype = torch.float32, *, deterministic: bool = True) -> PagedRunner:
    made = module(config(family)).to(dtype)
    return real.real_runner(
        made, vocabulary_size=V, longest_context=LONGEST, budget=CacheBudget(2000), deterministic=deterministic
    )


def greedy(run: PagedRunner, gamma: int, *, seed: int, slot: int = 0, company: bool = False) -> tuple[list[int], bytes]:
    """Return 40 tokens and the bits of their logits, decoded with random guesses, beside another slot if wanted."""
    random = np.random.default_rng(seed)
    run.open(slot)
    text, bits = list(TEXT[:50]), b""
    held = run.adopt(slot, tuple(text))
    if company:
        run.open(9)
    if len(text) - held > 1:
        run.forward([Rows(slot, tuple(text[held:-1]), 0)])
    while len(text) < 90:
        guesses = tuple(int(g) for g in random.integers(0, V, gamma))
        batch = [Rows(slot, (text[-1], *guesses), 1 + gamma)]
        if company and run.length(9) < 300:
            batch.insert(int(random.integers(2)), Rows(9, tuple(int(t) for t in random.integers(0, V, 5)), 2))
        logits = dict(zip((rows.slot for rows in batch), run.forward(batch), strict=True))[slot]
        kept = 0
        while True:
            text.append(int(logits[kept].argmax()))
            bits += logits[kept].tobytes()
            if len(text) == 90 or kept == gamma or guesses[kept] != text[-1]:
                break
            kept += 1
        run.truncate(slot, min(run.length(slot), len(text) - 1))
        run.commit(slot, tuple(text))
    for number in (slot, 9) if company else (slot,):
        run.close(number)
    return text, bits


@pytest.mark.parametrize("family", FAMILY)
@pytest.mark.parametrize("dtype", DTYPES)
def test_greedy_text_and_its_logits_are_the_same_with_any_block_batch_and_prefix_hit(family, dtype):
    plain = greedy(runner(family, dtype), 0, seed=0)
    run = runner(family, dtype)
    for number, (gamma, company) in enumerate([(0, False), (1, True), (4, False), (7, True), (0, True)]):
        assert greedy(run, gamma, seed=number, slot=number, company=company) == plain
    run.open(99)
    assert run.adopt(99, TEXT[:50]) == 48  # so that all but the first began on pages of others


def test_deterministic_mode_in_the_modules_of_the_model(monkeypatch):
    monkeypatch.setattr(ways, "can_fuse", lambda _: False)
    plain = greedy(runner("llama", torch.bfloat16), 0, seed=0)
    assert greedy(runner("llama", torch.bfloat16), 5, seed=1, company=True) == plain


def test_products_of_a_fixed_number_of_rows_are_the_same_function():
    torch.manual_seed(0)
    layer = torch.nn.Linear(24, 10)
    fixed = FixedRowsLinear(layer, rows=8)
    with torch.inference_mode():
        for rows in (1, 8, 19):
            x = torch.randn(1, rows, 24)
            torch.testing.assert_close(fixed(x), layer(x))


def plant(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Have passes of more than so many rows compute something a little else."""
    monkeypatch.setattr(
        "foreword.runner.fused.model.run_layers",
        lambda stream, *rest: run_layers(stream, *rest) * np.float32(1 + 1e-6 * (len(stream) > rows)),
    )


def test_kernels_that_depend_on_the_batch_are_refused(monkeypatch):
    plant(monkeypatch, rows=20)
    with pytest.raises(Mismatch, match=r"deterministic: .* rows scored"):
        check_deterministic(runner("llama", deterministic=False))


def test_what_only_large_passes_do_otherwise_is_noticed(monkeypatch):
    plant(monkeypatch, rows=250)
    with pytest.raises(Mismatch, match="in a crowd"):
        check_deterministic(runner("llama", deterministic=False))


def test_keys_that_depend_on_their_page_are_noticed(monkeypatch):
    def layers(stream, place, *rest):
        stream[:, 0] *= np.float32(1 + 1e-4 * (len(place.tables) > 1))
        return run_layers(stream, place, *rest)

    monkeypatch.setattr("foreword.runner.fused.model.run_layers", layers)
    with pytest.raises(Mismatch, match="in company"):
        check_deterministic(runner("llama", deterministic=False))
