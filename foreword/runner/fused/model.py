"""A decoder of the Llama kind (Llama, Mistral, Qwen2, Qwen3, SmolLM2, …) on a CPU, as a `StepModel`.

A layer is four matrix products and four calls of a compiled loop. The residual stream, keys and values are float32
whatever the weights are: on CPUs without bfloat16 arithmetic that is faster, and it rounds less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import rms_norm
from transformers import (
    LlamaForCausalLM,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen2ForCausalLM,
    Qwen3ForCausalLM,
)

from foreword.runner.kernels.attention import rotate
from foreword.runner.kernels.common import Floats, Integers
from foreword.runner.kernels.rowwise import add_and_normalize, gate
from foreword.runner.layers import Manner
from foreword.runner.on_pages import OnPages
from foreword.runner.plan import StepPlan
from foreword.runner.port import Logits
from foreword.runner.product import Product
from foreword.runner.tiles import TiledKeyValues

_MODELS = (LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM)
"""Exactly these: a subclass computes something of its own."""


@dataclass(frozen=True, slots=True)
class _Layer:
    before_attention: Floats
    """Weight of the norm, float32 [C]."""
    projections: Product
    """Queries, keys and values, in the order of a packed row."""
    head_norms: tuple[torch.Tensor, torch.Tensor] | None
    """Weights of the norms of every query head and every key head, where the model has them."""
    output: Product
    before_gate: Floats
    gate_and_up: Product
    down: Product
    manner: Manner


class FusedModel(OnPages):
    """Runs plans of a module that `can_fuse`; `longest` is the most tokens of a sequence.

    If `narrow`, products have int8 weights.
    """

    def __init__(
        self,
        module: PreTrainedModel,
        key_values: TiledKeyValues,
        manners: Sequence[Manner],
        *,
        longest: int,
        narrow: bool = False,
    ) -> None:
        config = module.config.get_text_config()
        decoder: Any = module.model
        embedding: Any = module.get_input_embeddings()
        head: Any = module.get_output_embeddings()  # type: ignore[no-untyped-call]
        super().__init__(key_values)
        self._key_values = key_values
        self._heads = int(config.num_attention_heads)
        self._groups = int(config.num_key_value_heads)
        self._size = int(decoder.layers[0].self_attn.head_dim)
        self._epsilon = float(config.rms_norm_eps)
        self._embedding: torch.Tensor = embedding.weight.detach()
        self._narrow = narrow
        self._layers = [self._layer(layer, manner) for layer, manner in zip(decoder.layers, manners, strict=True)]
        self._last_norm = _floats(decoder.norm.weight)
        self._head = Product([head], narrow=narrow)
        self._cosines, self._sines = _rotations(decoder.rotary_emb, longest)

    @property
    def vocabulary_size(self) -> int:
        """V: rows of the head."""
        return self._head.out_features

    @torch.inference_mode()
    def run(self, plan: StepPlan) -> Logits:
        """Run the pass and return float32 [K, V], the logits of the wanted rows."""
        self._key_values.copy(plan.copies)
        tables = self._key_values.tables(plan)
        stream = self._embedding[torch.from_numpy(plan.tokens)].float().numpy()
        addend = np.zeros_like(stream)
        normal = np.empty_like(stream)
        for number, layer in enumerate(self._layers):
            add_and_normalize(stream, addend, layer.before_attention, self._epsilon, normal)
            addend = layer.output(self._attend(number, layer, normal, plan, tables))
            add_and_normalize(stream, addend, layer.before_gate, self._epsilon, normal)
            both = layer.gate_and_up(normal)
            gated = np.empty((both.shape[0], both.shape[1] // 2), np.float32)
            gate(both, gated)
            addend = layer.down(gated)
        stream, addend = stream[plan.wanted], addend[plan.wanted]
        normal = np.empty_like(stream)
        add_and_normalize(stream, addend, self._last_norm, self._epsilon, normal)
        logits: Logits = self._head(normal)
        return logits

    def _attend(self, number: int, layer: _Layer, rows: Floats, plan: StepPlan, tables: Integers) -> Floats:
        """Return what the heads of a layer say, float32 [N, heads · D]."""
        packed = layer.projections(rows)
        if layer.head_norms is not None:
            packed = self._normalized(torch.from_numpy(packed), layer.head_norms).numpy()
        rotate(packed, self._heads + self._groups, self._size, self._cosines, self._sines, plan.positions)
        return self._key_values.attend_packed(number, packed, self._heads, plan, tables=tables, manner=layer.manner)

    def _normalized(self, projected: torch.Tensor, norms: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        sizes = [self._heads * self._size, self._groups * self._size, self._groups * self._size]
        queries, keys, values = torch.split(projected, sizes, dim=1)
        parts = [
            rms_norm(part.reshape(len(part), -1, self._size), (self._size,), weight, self._epsilon).flatten(1)
            for part, weight in zip((queries, keys), norms, strict=True)
        ]
        return torch.cat([*parts, values], dim=1)

    def _layer(self, layer: Any, manner: Manner) -> _Layer:
        attention, mlp = layer.self_attn, layer.mlp
        norms = None
        if hasattr(attention, "q_norm"):
            norms = attention.q_norm.weight.detach().float(), attention.k_norm.weight.detach().float()
        return _Layer(
            before_attention=_floats(layer.input_layernorm.weight),
            projections=self._product(attention.q_proj, attention.k_proj, attention.v_proj),
            head_norms=norms,
            output=self._product(attention.o_proj),
            before_gate=_floats(layer.post_attention_layernorm.weight),
            gate_and_up=self._product(mlp.gate_proj, mlp.up_proj),
            down=self._product(mlp.down_proj),
            manner=manner,
        )

    def _product(self, *layers: nn.Linear) -> Product:
        return Product(layers, narrow=self._narrow)


def can_fuse(module: PreTrainedModel) -> bool:
    """Whether a module is on a CPU and of classes that compute what `FusedModel` computes, and nothing else."""
    config = module.config.get_text_config()
    decoder = getattr(module, "model", None)
    layers = getattr(decoder, "layers", None)
    if module.device.type != "cpu" or type(module) not in _MODELS or not layers:
        return False
    head = module.get_output_embeddings()  # type: ignore[no-untyped-call]
    return config.hidden_act == "silu" and type(head) is nn.Linear


def _floats(tensor: torch.Tensor) -> Floats:
    floats: Floats = tensor.detach().float().numpy().copy()
    return floats


@torch.inference_mode()
def _rotations(rotary: nn.Module, longest: int) -> tuple[Floats, Floats]:
    """Return cosines and sines [longest, R / 2] of all positions, in float32 whatever the weights are."""
    cosines, sines = rotary(torch.zeros(1, 1, 1), position_ids=torch.arange(longest)[None])
    half = cosines.shape[-1] // 2
    return cosines[0, :, :half].numpy().copy(), sines[0, :, :half].numpy().copy()
