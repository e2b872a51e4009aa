"""A token that makes everything not a number costs whoever sees it, and nobody who is given its page later."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from foreword.runner import real, ways
from foreword.runner.budget import CacheBudget
from foreword.runner.paged import PagedRunner
from foreword.runner.port import Rows
from tests.unit.runner.tiny import LONGEST, V, config, module

BAD = 7


def runner(family: str, tokens: int = 64) -> PagedRunner:
    made = module(config(family))
    with torch.no_grad():
        made.get_input_embeddings().weight[BAD] = torch.nan
    return real.real_runner(made, vocabulary_size=V, longest_context=LONGEST, budget=CacheBudget(tokens))


def rows_with_numbers(run: PagedRunner, slot: int, *tokens: int) -> list[bool]:
    """Append tokens and return for each whether its logits are numbers."""
    return np.isfinite(run.forward([Rows(slot, tokens, len(tokens))])[0]).all(axis=1).tolist()


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("family", ["llama", "mistral with a window"])
def test_a_bad_token_is_seen_from_its_position_on_and_gone_after_a_rollback(monkeypatch, family, fused):
    monkeypatch.setattr(ways, "can_fuse", lambda module: fused)
    run = runner(family)
    run.open(0)
    assert rows_with_numbers(run, 0, 1, 2, BAD, 3) == [True, True, False, False]
    run.truncate(0, 2)
    assert rows_with_numbers(run, 0, 4) == [True]  # in the page that still holds what was rolled back
    run.close(0)
    run.open(1)
    assert rows_with_numbers(run, 1, 1, 2) == [True, True]


def test_a_bad_token_before_the_window_is_out_of_sight():
    run = runner("mistral with a window")  # of 5 tokens in each of 3 layers
    run.open(0)
    seen = rows_with_numbers(run, 0, BAD, *range(10, 30))
    assert seen == [False] * 13 + [True] * 8
