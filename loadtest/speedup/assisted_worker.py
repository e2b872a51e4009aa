"""Assisted generation of transformers: `python -m loadtest.speedup.assisted_worker FOLDER THREADS`, in JSON lines.

Its assistant is the same draft as a plain model, with the whole head, since transformers knows no other; without one it
is transformers' own prompt lookup. Block lengths are as transformers chooses them.
"""

from __future__ import annotations

import sys
import time
from functools import cache
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from foreword.models.quiet import quiet
from loadtest.bench.torch_worker import run_worker

LOOKUP_TOKENS = 10
"""What transformers' documentation uses."""


class Worker:
    """One target, and the assistants that are asked for."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self._model = cache(_load)

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """Write one text; `assistant` is a folder, empty for prompt lookup, None for no help at all."""
        dtype, assistant, tokens = question["dtype"], question["assistant"], question["tokens"]
        model = self._model(self._folder, dtype)
        made = self._tokenizer.apply_chat_template(
            question["chat"], add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        how: dict[str, Any] = {}
        if assistant:
            how["assistant_model"] = self._model(assistant, dtype)
        elif assistant is not None:
            how["prompt_lookup_num_tokens"] = LOOKUP_TOKENS
        began = time.perf_counter()
        out = model.generate(**made, do_sample=False, max_new_tokens=tokens, **how)
        seconds = time.perf_counter() - began
        return {"tokens": int(out.shape[1] - made["input_ids"].shape[1]), "seconds": seconds}


def _load(folder: str, dtype: str) -> Any:
    with quiet():
        return AutoModelForCausalLM.from_pretrained(
            folder, dtype=getattr(torch, dtype), use_safetensors=True, local_files_only=True
        )


if __name__ == "__main__":
    run_worker(Worker, sys.argv[1], int(sys.argv[2]))
