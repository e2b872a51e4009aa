"""A decoder of the Llama kind (Llama, Mistral, Qwen2, Qwen3, SmolLM2, …) on a CPU, as a `StepModel`.

A pass is one call of compiled code. The residual stream, keys and values are float32 whatever the weights are: on
CPUs without bfloat16 arithmetic that is faster, and it rounds less.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import nn
from transformers import (
    LlamaForCausalLM,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen2ForCausalLM,
    Qwen3ForCausalLM,
)

from foreword.runner.fused.layers import Kind, Layers, Place, run_layers
from foreword.runner.kernels.codes import Bits
from foreword.runner.kernels.common import Floats
from foreword.runner.layers import Manner
from foreword.runner.on_pages import OnPages
from foreword.runner.plan import StepPlan
from foreword.runner.port import Logits
from foreword.runner.product import weights_of
from foreword.runner.threads import Threads
from foreword.runner.tiles import TiledKeyValues

_MODELS = (LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM)
"""Exactly these: a subclass computes something of its own."""


class FusedModel(OnPages):
    """Runs plans of a module that `can_fuse`; `longest` is the most tokens of a sequence.

    Products have weights of so many `bits`, as `narrow` rounds them.
    """

    def __init__(
        self,
        module: PreTrainedModel,
        key_values: TiledKeyValues,
        manners: Sequence[Manner],
        *,
        longest: int,
        bits: Bits | None = None,
    ) -> None:
        embedding: Any = module.get_input_embeddings()
        super().__init__(key_values)
        self._key_values = key_values
        self._embedding: torch.Tensor = embedding.weight.detach()
        self._layers = _layers(module, bits)
        self._kind = _kind(module, manners, longest)
        self._threads = Threads.now(_size(self._layers))
        self.spent_ns = np.zeros(3, np.int64)
        """Where the time of passes went, added up, by `layers.PRODUCTS`, `ATTENTION` and `ROWWISE`."""

    @property
    def vocabulary_size(self) -> int:
        """V: rows of the head."""
        return int(self._layers.head.outputs)

    @torch.inference_mode()
    def run(self, plan: StepPlan) -> Logits:
        """Run the pass and return float32 [K, V], the logits of the wanted rows."""
        held = self._key_values
        self._threads.use(len(plan.tokens))
        held.copy(plan.copies)
        stream = self._embedding[torch.from_numpy(plan.tokens)].float().numpy()
        place = Place(plan.positions, plan.owners, held.tables(plan), plan.wanted)
        logits: Logits = run_layers(stream, place, self._layers, self._kind, held.keys, held.values, self.spent_ns)
        return logits


def _layers(module: PreTrainedModel, bits: Bits | None) -> Layers:
    decoder: Any = module.model
    layers = list(decoder.layers)
    attentions, mlps = [layer.self_attn for layer in layers], [layer.mlp for layer in layers]
    head: Any = module.get_output_embeddings()  # type: ignore[no-untyped-call]
    norms = np.zeros((len(layers), 2, 0), np.float32)
    if hasattr(attentions[0], "q_norm"):
        norms = np.stack([np.stack([_floats(a.q_norm.weight), _floats(a.k_norm.weight)]) for a in attentions])
    return Layers(
        before_attention=np.stack([_floats(layer.input_layernorm.weight) for layer in layers]),
        projections=weights_of([(a.q_proj, a.k_proj, a.v_proj) for a in attentions], bits),
        head_norms=norms,
        output=weights_of([(a.o_proj,) for a in attentions], bits),
        before_gate=np.stack([_floats(layer.post_attention_layernorm.weight) for layer in layers]),
        gate_and_up=weights_of([(mlp.gate_proj, mlp.up_proj) for mlp in mlps], bits),
        down=weights_of([(mlp.down_proj,) for mlp in mlps], bits),
        last_norm=_floats(decoder.norm.weight),
        head=weights_of([(head,)], None if bits is None else 8),
    )


def _size(layers: Layers) -> int:
    """Return the bytes that a pass reads."""
    products = (layers.projections, layers.output, layers.gate_and_up, layers.down, layers.head)
    return sum(int(one[0].nbytes) for one in products)


def _kind(module: PreTrainedModel, manners: Sequence[Manner], longest: int) -> Kind:
    config, decoder = module.config.get_text_config(), cast("Any", module.model)
    cosines, sines = _rotations(decoder.rotary_emb, longest)
    return Kind(
        heads=int(config.num_attention_heads),
        groups=int(config.num_key_value_heads),
        size=int(decoder.layers[0].self_attn.head_dim),
        epsilon=float(config.rms_norm_eps),
        scales=np.array([manner.scale for manner in manners], np.float64),
        windows=np.array([manner.window for manner in manners], np.int64),
        softcaps=np.array([manner.softcap for manner in manners], np.float64),
        cosines=cosines,
        sines=sines,
    )


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
