"""transformers on its own: `python -m loadtest.exactness.transformers_worker FOLDER THREADS`, asked in JSON lines.

It loads the folder with transformers' own loader, tokenizer and eager attention and shares nothing with the services
but the weights; only the laws and the noise of a replay are Foreword's, as they define what is wanted.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from foreword.addresses.keys import Purpose, derive_key
from foreword.laws.parameters import LawParameters
from foreword.laws.pipeline import LawRows, target_laws
from foreword.laws.sampling import match_margin, sample_match
from loadtest.bench.torch_worker import run_worker


class Worker:
    """One model in float32."""

    def __init__(self, folder: str) -> None:
        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self._model: Any = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager", use_safetensors=True, local_files_only=True
        )

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """Carry out one question: `greedy`, or `replay`."""
        kind = question.pop("kind")
        return self.greedy(**question) if kind == "greedy" else self.replay(**question)

    def greedy(self, conversations: list[list[dict[str, str]]], max_tokens: int) -> dict[str, Any]:
        """Return for each conversation the text of `generate` as ids, the prompt's ids, and the lead of every token.

        The lead is that of the largest logit over the second. Conversations are decoded as one batch.
        """
        prompts = [self._tokenizer.apply_chat_template(one, add_generation_prompt=True) for one in conversations]
        batch = self._tokenizer.pad(prompts, return_tensors="pt", padding_side="left")
        made = self._model.generate(
            **batch,
            do_sample=False,
            max_new_tokens=max_tokens,
            pad_token_id=self._tokenizer.pad_token_id,
            return_dict_in_generate=True,
            output_logits=True,
        )
        outputs = made.sequences[:, batch["input_ids"].shape[1] :]
        top = torch.stack([torch.topk(logits.double(), 2).values for logits in made.logits], dim=1)
        texts = []
        for row, prompt in enumerate(prompts):
            ids = self._up_to_the_end(outputs[row].tolist())
            margins = (top[row, :, 0] - top[row, :, 1]).tolist()[: len(ids)]
            texts.append({"prompt": prompt["input_ids"], "ids": ids, "margins": margins})
        return {"texts": texts}

    def _up_to_the_end(self, ids: list[int]) -> list[int]:
        """Cut what fills a row up after its end of text."""
        ends = self._model.generation_config.eos_token_id
        known = ends if isinstance(ends, list) else [ends]
        return ids[: next((i for i, token in enumerate(ids) if token in known), len(ids)) + 1]

    def replay(self, prompt: list[int], output: list[int], law: dict[str, Any], seed: int) -> dict[str, Any]:
        """Return what is drawn after every prefix of `output` with the noise of `seed`, and by how much it leads."""
        ids = torch.tensor([prompt + output[:-1]])
        logits = self._model(input_ids=ids, use_cache=False).logits[0, len(prompt) - 1 :].numpy()
        rows = LawRows(
            LawParameters(**law), logits.astype(np.float32), prompt=prompt, candidates=output[:-1], output=()
        )
        key = derive_key(seed, 0, Purpose.MATCH)
        (laws,) = target_laws([rows])
        margins = [match_margin(one, key, position) for position, one in enumerate(laws)]
        return {
            "ids": [sample_match(one, key, position) for position, one in enumerate(laws)],
            "margins": [None if math.isinf(margin) else margin for margin in margins],
        }


if __name__ == "__main__":
    run_worker(Worker, sys.argv[1], int(sys.argv[2]))
