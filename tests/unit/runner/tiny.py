"""Tiny random models of several families, in float32."""

from __future__ import annotations

from typing import Any

import torch
import transformers

V, LONGEST = 96, 400
SIZES: dict[str, Any] = {
    "vocab_size": V,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": LONGEST,
}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", {}),
    "llama3": (
        "LlamaConfig",
        {
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 10000.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            }
        },
    ),
    "qwen2": ("Qwen2Config", {}),
    "qwen3": ("Qwen3Config", {}),
    "mistral": ("MistralConfig", {"sliding_window": None}),
    "mistral with a window": ("MistralConfig", {"sliding_window": 5}),
    "gemma": ("GemmaConfig", {"num_key_value_heads": 1}),
    "gemma2": ("Gemma2Config", {"sliding_window": 6, "final_logit_softcapping": 3.0, "attn_logit_softcapping": 2.0}),
    "gemma3": ("Gemma3TextConfig", {"sliding_window": 4}),
    "phi3": ("Phi3Config", {"pad_token_id": 0}),
    "granite": ("GraniteConfig", {"logits_scaling": 4.0, "residual_multiplier": 0.5}),
    "gpt_neox": ("GPTNeoXConfig", {}),
}


def config(family: str, **more: Any) -> transformers.PreTrainedConfig:
    """Return the config of a family."""
    name, own = FAMILIES[family]
    made: transformers.PreTrainedConfig = getattr(transformers, name)(**{**SIZES, **own, **more})
    return made


def module(made: transformers.PreTrainedConfig, *, seed: int = 0) -> transformers.PreTrainedModel:
    """Return a random model whose weights are large enough for tokens to matter."""
    torch.manual_seed(seed)
    model: transformers.PreTrainedModel = transformers.AutoModelForCausalLM.from_config(made)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0.0, 0.3)
    return model.eval()
