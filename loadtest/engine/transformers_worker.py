"""transformers on its own: `python -m loadtest.engine.transformers_worker FOLDER THREADS`, asked in JSON lines.

It shares nothing with the services but the weights. Models are loaded as a user would, with the attention that
transformers chooses; an end of text ends nothing, so that every arm writes as many tokens.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, ContinuousBatchingConfig, DynamicCache, GenerationConfig
from transformers.generation.streamers import BaseStreamer

from foreword.models.quiet import quiet
from loadtest.bench.torch_worker import run_worker
from loadtest.engine.clock import timed

_BATCH_PAGE = 32
"""Tokens of a page in transformers' cache for continuous batching."""
_BATCH_STEP = 512
"""Most tokens of its steps."""


class Arrivals(BaseStreamer):
    """Notes when the tokens of each step are there."""

    def __init__(self) -> None:
        self.at: list[float] = []

    def put(self, value: torch.Tensor) -> None:
        """Take the prompts, or the tokens of a step."""
        self.at.append(time.perf_counter())

    def end(self) -> None:
        """Take note of the end, which `generate` itself tells."""


class Worker:
    """The models of one folder, each loaded when it is first asked for."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self._model = cache(self._load)

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """Carry out one question."""
        kind = question.pop("kind")
        known: dict[str, Callable[..., dict[str, Any]]] = {
            "tokenize": self.tokenize,
            "generate": self.generate,
            "continuous": self.continuous,
            "passes": self.passes,
        }
        return known[kind](**question)

    def tokenize(self, chat: list[dict[str, str]], texts: list[str]) -> dict[str, Any]:
        """Return the ids of a chat by its template, and those of texts as they are."""
        made = self._tokenizer.apply_chat_template(chat, add_generation_prompt=True)
        return {"chat": made["input_ids"], "texts": [self._tokenizer(text)["input_ids"] for text in texts]}

    def generate(self, dtype: str, prompts: list[list[int]], tokens: int) -> dict[str, Any]:
        """Return what `generate` wrote, all prompts in one padded batch, and when each step's tokens were there."""
        model, arrivals = self._model(dtype), Arrivals()
        padded = self._tokenizer.pad({"input_ids": prompts}, return_tensors="pt", padding_side="left")
        began = time.perf_counter()
        made = model.generate(**padded, do_sample=False, max_new_tokens=tokens, streamer=arrivals)
        seconds = time.perf_counter() - began
        at = [moment - began for moment in arrivals.at[1:]]  # the first are the prompts
        ids = made[:, padded["input_ids"].shape[1] :].tolist()
        return {"seconds": seconds, "arrivals": [at] * len(prompts), "ids": ids}

    def continuous(self, dtype: str, prompts: list[list[int]], tokens: int) -> dict[str, Any]:
        """Return what `generate_batch` wrote and when, in the order of its ends.

        The cache is as large as it has to be; left to itself it takes most of the machine's memory for one.
        """
        model = self._model(dtype)
        pages = sum(math.ceil((len(prompt) + tokens) / _BATCH_PAGE) + 1 for prompt in prompts)
        began = time.perf_counter()
        made = model.generate_batch(
            prompts,
            generation_config=GenerationConfig(  # type: ignore[no-untyped-call]
                do_sample=False, max_new_tokens=tokens, eos_token_id=-1, pad_token_id=self._tokenizer.pad_token_id
            ),
            continuous_batching_config=ContinuousBatchingConfig(
                num_blocks=pages, page_size=_BATCH_PAGE, max_batch_tokens=_BATCH_STEP
            ),
            record_timestamps=True,
            warmup=False,
        )
        seconds = time.perf_counter() - began
        outputs = list(made.values())
        arrivals = [[moment - began for moment in one.timestamps] for one in outputs]
        return {"seconds": seconds, "arrivals": arrivals, "ids": [one.generated_tokens for one in outputs]}

    def passes(self, dtype: str, rows: int, context: int, seconds: float) -> dict[str, Any]:
        """Return the seconds of forward passes of some rows of one sequence behind cached ones."""
        model, past = self._model(dtype), DynamicCache()
        model(input_ids=torch.arange(5, 5 + context)[None], cache=past, use_cache=True, logits_to_keep=1)
        ids = torch.arange(7, 7 + rows)[None]
        taken = timed(
            lambda: model(input_ids=ids, cache=past, use_cache=True),
            lambda: past.crop(-rows),
            seconds=seconds,
        )
        return {"seconds": taken}

    def _load(self, dtype: str) -> Any:
        with quiet():
            model: Any = AutoModelForCausalLM.from_pretrained(
                self._folder, dtype=getattr(torch, dtype), use_safetensors=True, local_files_only=True
            )
        model.generation_config.eos_token_id = None
        model.generation_config.pad_token_id = self._tokenizer.pad_token_id
        return model


if __name__ == "__main__":
    run_worker(Worker, sys.argv[1], int(sys.argv[2]))
