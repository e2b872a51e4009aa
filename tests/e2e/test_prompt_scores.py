"""Log-probabilities of a prompt of real weights are those of transformers."""

from __future__ import annotations

import numpy as np
import pytest

from foreword.client import AsyncClient
from foreword.models.load_tokenizer import load_tokenizer
from foreword.models.source import parse_source
from foreword.settings.environment import cache_folder
from foreword.stack.stack import Stack
from loadtest.prompts import dev_prompts
from tests.e2e.kit import QUICK, embedded_folder

pytestmark = [pytest.mark.e2e]

NEAR = 2e-3
"""Nats: float32, in other pieces than transformers reads the text in."""


async def test_a_prompt_is_scored_as_by_transformers() -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    folder = embedded_folder()
    tokenizer = load_tokenizer(parse_source("embedded"), cache_folder())
    text = next(prompt for prompt in dev_prompts() if prompt.category == "edit").messages[-1].content
    ids = tokenizer.encode(text)
    async with Stack(QUICK) as stack, AsyncClient(stack.address) as client:
        done = await client.generate(list(ids), prompt_logprobs=1, max_tokens=0)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        logs = torch.log_softmax(model(torch.tensor([ids])).logits[0, :-1].double(), dim=-1).numpy()
    found = done.started.prompt_logprobs
    assert found is not None
    assert found.chosen == pytest.approx(logs[np.arange(len(ids) - 1), ids[1:]].tolist(), abs=NEAR)
    assert [row[0][1] for row in found.top] == pytest.approx(logs.max(axis=1).tolist(), abs=NEAR)
    assert done.usage.prompt_tokens == len(ids) > 50
