"""The real embedded model: the runner's greedy text is that of transformers, whatever was drafted."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from foreword.models.load import LoadedModel, load_model
from foreword.models.source import parse_source
from foreword.models.tokenizer import ChatMessage
from foreword.runner.budget import CacheBudget
from foreword.runner.port import Rows, Runner
from foreword.runner.real import real_runner
from foreword.settings.environment import cache_folder

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]

QUESTIONS = (
    "What is the capital of France?",
    "Write a Python function that reverses a string.",
    "Tell me a short story about a fox and a river.",
    "¿Cuál es tu color favorito? Añade un emoji 😀.",
)
TOKENS = 48


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return load_model(parse_source("embedded"), cache=cache_folder())


def greedy_by_transformers(loaded: LoadedModel, prompt: tuple[int, ...]) -> list[int]:
    with torch.inference_mode():
        ids = torch.tensor([prompt])
        # The mask is given because transformers takes the end of a message in the prompt for padding.
        output = loaded.module.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=TOKENS, do_sample=False, eos_token_id=None
        )
    return output[0, len(prompt) :].tolist()


def greedy_by_verification(runner: Runner, prompts: list[tuple[int, ...]], hints: list[list[int]]) -> list[list[int]]:
    """Decode all prompts side by side; drafts are hints, one in four spoiled, of lengths from 0 to 4."""
    random = np.random.default_rng(0)
    for slot in range(len(prompts)):
        runner.open(slot)
    first = runner.forward([Rows(slot, prompt, 1) for slot, prompt in enumerate(prompts)])
    texts = [[int(logits[-1].argmax())] for logits in first]
    while any(len(text) < TOKENS for text in texts):
        batch = []
        for slot, text in enumerate(texts):
            if len(text) < TOKENS:
                hint = hints[slot][len(text) : len(text) + int(random.integers(0, 5))]
                draft = [int(random.integers(0, 49152)) if random.random() < 0.25 else token for token in hint]
                batch.append(Rows(slot, (text[-1], *draft), 1 + len(draft)))
        for rows, logits in zip(batch, runner.forward(batch), strict=True):
            best, kept = logits.argmax(axis=1), 0
            while kept < rows.need - 1 and rows.tokens[kept + 1] == best[kept]:
                kept += 1
            texts[rows.slot] += best[: kept + 1].tolist()
            runner.truncate(rows.slot, runner.length(rows.slot) - (rows.need - 1 - kept))
    return [text[:TOKENS] for text in texts]


def test_greedy_text_is_that_of_transformers(loaded):
    prompts = [loaded.tokenizer.chat([ChatMessage("user", question)]) for question in QUESTIONS]
    wanted = [greedy_by_transformers(loaded, prompt) for prompt in prompts]
    runner = real_runner(
        loaded.module,
        vocabulary_size=loaded.info.vocabulary_size,
        longest_context=loaded.info.longest_context,
        budget=CacheBudget(4096),
    )
    assert greedy_by_verification(runner, prompts, wanted) == wanted


def test_who_it_is(loaded):
    info = loaded.info
    assert (info.vocabulary_size, info.longest_context, info.eos_ids) == (49152, 8192, (2,))
    text = loaded.tokenizer.encode("Numbers like 12345, and naïve 😀.")
    assert loaded.tokenizer.decode(text) == "Numbers like 12345, and naïve 😀."
