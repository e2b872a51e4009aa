"""Windows that only the model's mask knows of, which its attention function is not told; and what is refused by name.

They are longer than the tokens that a model is probed with when it is loaded, so the probe would not see them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers

from foreword.errors import Mismatch
from foreword.runner import paged_attention
from foreword.runner.budget import CacheBudget
from foreword.runner.paged import PagedRunner
from foreword.runner.port import Logits, Rows
from foreword.runner.real import real_runner
from tests.unit.runner.tiny import LONGEST, SIZES, V

WINDOW = 9
TEXT = tuple(int(i) for i in np.random.default_rng(1).integers(0, V, 60))
EXPERTS = {"moe_intermediate_size": 16, "shared_expert_intermediate_size": 16, "num_experts": 4}
MASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "phimoe": ("PhimoeConfig", {"num_local_experts": 4, "sliding_window": WINDOW}),
    "qwen2_moe": (
        "Qwen2MoeConfig",
        {**EXPERTS, "use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 2},
    ),
}


def module(kind: str, fields: dict[str, Any]) -> transformers.PreTrainedModel:
    torch.manual_seed(3)
    made = getattr(transformers, kind)(**{**SIZES, **fields})
    model: transformers.PreTrainedModel = transformers.AutoModelForCausalLM.from_config(
        made, attn_implementation="eager"
    )
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0.0, 0.3)
    return model.eval()


def run(model: transformers.PreTrainedModel) -> PagedRunner:
    return real_runner(model, vocabulary_size=V, longest_context=LONGEST, budget=CacheBudget(2 * LONGEST))


def own_logits(model: transformers.PreTrainedModel) -> Logits:
    with torch.inference_mode():
        logits: Logits = model(input_ids=torch.tensor([TEXT]), use_cache=False).logits[0].float().numpy()
    return logits


@pytest.mark.parametrize("family", sorted(MASKED))
def test_a_window_that_only_the_mask_knows_is_kept(family):
    model = module(*MASKED[family])
    wanted = own_logits(model)
    runner = run(model)
    runner.open(0)
    pieces = [runner.forward([Rows(0, TEXT[first : first + 7], 7)])[0] for first in range(0, 56, 7)]
    np.testing.assert_allclose(np.concatenate(pieces), wanted[:56], atol=2e-4, rtol=0)


@pytest.mark.parametrize("family", sorted(MASKED))
def test_a_mask_that_is_not_looked_at_is_noticed(monkeypatch, family):
    monkeypatch.setattr(paged_attention, "_window", lambda _: 0)
    model = module(*MASKED[family])
    wanted = own_logits(model)
    runner = run(model)
    runner.open(0)
    (logits,) = runner.forward([Rows(0, TEXT, len(TEXT))])
    assert np.abs(logits - wanted)[:WINDOW].max() < 2e-4
    assert np.abs(logits - wanted)[WINDOW:].max() > 0.1


@pytest.mark.parametrize(
    ("kind", "fields", "named"),
    [
        (
            "Llama4TextConfig",
            {
                "num_local_experts": 2,
                "intermediate_size_mlp": 48,
                "layer_types": ["full_attention"] * 3,
                "no_rope_layers": [1, 0, 1],
                "attn_temperature_tuning": True,
            },
            "attn_temperature_tuning",
        ),
        ("DogeConfig", {}, "attention"),
        ("NemotronConfig", {}, "keyword arguments"),
    ],
)
def test_what_is_not_computed_is_refused_with_its_reason(kind, fields, named):
    with pytest.raises(Mismatch, match=named):
        run(module(kind, fields))


def test_weights_that_are_no_numbers_are_called_so():
    model = module("LlamaConfig", {})
    with torch.no_grad():
        model.lm_head.weight[3, 0] = float("nan")
    with pytest.raises(Mismatch, match="finite"):
        run(model)
