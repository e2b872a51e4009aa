"""The embedded target on three ranks: one's probabilities, and log-probabilities over 1e-3, within 1e-4; its texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from foreword.models.dtype import Dtype
from foreword.models.source import parse_source
from foreword.models.tokenizer import ChatMessage
from foreword.runner.budget import CacheBudget
from foreword.runner.build import build_runner
from foreword.runner.port import Rows, Runner
from foreword.settings.environment import cache_folder
from foreword.testing.synthetic import Side
from target_service.engine.models import ModelSettings
from target_service.tensor_parallel.load import load_part
from target_service.tensor_parallel.model import TensorParallelModel, follow
from target_service.tensor_parallel.ranks import Ranks
from tests.unit.target_service.tensor_parallel.processes import run_ranks

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]

QUESTIONS = ("What is the capital of France?", "Write a Python function that reverses a string.")
TOKENS = 24
CACHE_TOKENS = 1024

Texts = list[list[int]]
Evidence = list[np.ndarray]


def decoded(runner: Runner, prompts: list[tuple[int, ...]]) -> tuple[Texts, Evidence]:
    """Decode greedily side by side; return texts, and log-probabilities of everything that was scored.

    Then the last five tokens are taken back and verified as a block, beside a row of the other session.
    """
    for slot in range(len(prompts)):
        runner.open(slot)
    scored: Evidence = []
    rows = [Rows(slot, prompt, 1) for slot, prompt in enumerate(prompts)]
    texts: Texts = [[] for _ in prompts]
    for _ in range(TOKENS):
        logits = runner.forward(rows)
        scored += [log_probabilities(one) for one in logits]
        for text, one in zip(texts, logits, strict=True):
            text.append(int(one[-1].argmax()))
        rows = [Rows(slot, (text[-1],), 1) for slot, text in enumerate(texts)]
    runner.truncate(0, runner.length(0) - 5)
    block = tuple(texts[0][-6:-1])
    scored += [log_probabilities(one) for one in runner.forward([Rows(0, block, 5), rows[1]])]
    return texts, scored


def log_probabilities(logits: np.ndarray) -> np.ndarray:
    wide = logits.astype(np.float64)
    top = wide.max(axis=1, keepdims=True)
    return wide - top - np.log(np.exp(wide - top).sum(axis=1, keepdims=True))


def on_ranks(ranks: Ranks, prompts: list[tuple[int, ...]]) -> tuple[Texts, Evidence] | None:
    settings = ModelSettings("embedded", "", Dtype.FLOAT32, cache_folder(), 1, CACHE_TOKENS, 0.4, page_size=32)
    part = load_part(settings, ranks, neighbours=ranks.size)
    assert part.model.page_size == 32
    if ranks.rank:
        follow(part.model, ranks, part.widths)
        return None
    model = TensorParallelModel(part.model, ranks, part.widths)
    found = decoded(part.loaded(model).runner, prompts)
    model.dismiss()
    return found


def test_three_ranks_give_the_evidence_and_the_text_of_one(tmp_path: Path) -> None:
    whole = build_runner(
        parse_source("embedded"),
        side=Side.TARGET,
        cache=cache_folder(),
        threads=1,
        budget=CacheBudget(CACHE_TOKENS),
    )
    prompts = [whole.tokenizer.chat([ChatMessage("user", question)]) for question in QUESTIONS]
    texts, evidence = decoded(whole.runner, prompts)
    found, *others = run_ranks(3, on_ranks, prompts, folder=tmp_path)
    assert others == [None, None]
    assert found[0] == texts
    for one, other in zip(found[1], evidence, strict=True):
        np.testing.assert_allclose(np.exp(one), np.exp(other), atol=1e-4, rtol=0)
        probable = other > np.log(1e-3)  # of the others float32 itself leaves 1.3e-4 open, on one rank
        np.testing.assert_allclose(one[probable], other[probable], atol=1e-4, rtol=0)
