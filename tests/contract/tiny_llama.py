"""A random Llama of two layers, for contracts that real models have to keep too."""

from __future__ import annotations

from typing import Any

import pytest


def tiny_llama(*, vocabulary: int, longest: int, of_its_own: bool = False) -> Any:
    """Return the module; `of_its_own` makes it a subclass, whose layers nobody may fuse. Skips without torch."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=longest,
    )
    kind = transformers.LlamaForCausalLM
    return (type("OwnLlama", (kind,), {}) if of_its_own else kind)(config).eval()
