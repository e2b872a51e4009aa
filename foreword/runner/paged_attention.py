"""Attention over packed rows of many sessions, as a function that transformers' models call.

It is registered with transformers' public AttentionInterface under a name that has no mask function, for which the
library makes no mask. The step reaches it as an extra keyword argument of the model's forward. How far back a layer
looks is in the mask that the library would make, and not always in what the layer tells its attention function, so
windows are taken from masks, once, before the first step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from transformers import PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface
from transformers.modeling_utils import AttentionInterface

from foreword.errors import Mismatch
from foreword.runner.key_values import KeyValues
from foreword.runner.layers import CacheShape, Manner
from foreword.runner.plan import StepPlan

_LOOKING = "foreword_looking"
NAME = "foreword_paged"
"""Name of the attention function."""


@dataclass(frozen=True, slots=True)
class Step:
    """What the layers need to know of a pass."""

    plan: StepPlan
    key_values: KeyValues
    manners: tuple[Manner, ...]
    """How its layers attend, as `look` saw it."""


@torch.inference_mode()
def look(module: PreTrainedModel) -> tuple[CacheShape, tuple[Manner, ...]]:
    """Return what the cache of a model looks like and how its layers attend, as seen in a pass of one row.

    Configs may name what a model does not have.

    Raises Mismatch for a model whose layers differ, or that does not attend through the interface.
    """
    seen: dict[int, tuple[int, ...]] = {}
    manners: dict[int, Manner] = {}

    def attention(
        layer: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        **how: Any,
    ) -> tuple[torch.Tensor, None]:
        number = int(layer.layer_idx)  # type: ignore[arg-type]
        seen[number] = (key.shape[1], key.shape[3], value.shape[3])
        manner = _manner(query, **how)
        manners[number] = manner if attention_mask is None else replace(manner, window=_window(attention_mask))
        return query.new_zeros((1, query.shape[2], query.shape[1], value.shape[3])), None

    usual = module.config._attn_implementation
    AttentionInterface.register(_LOOKING, attention)
    AttentionMaskInterface.register(_LOOKING, _mask)
    module.set_attn_implementation(_LOOKING)
    module(input_ids=torch.zeros((1, 1), dtype=torch.long, device=module.device), use_cache=False)
    module.set_attn_implementation(usual)
    kinds = set(seen.values())
    if len(kinds) != 1 or sorted(seen) != list(range(len(seen))):
        raise Mismatch(f"attention: got layers with heads of {sorted(kinds) or 'no kind'}, wanted one kind in all")
    groups, size, value_size = kinds.pop()
    if size != value_size:
        raise Mismatch(f"attention: got keys of {size} and values of {value_size}, wanted heads of one size")
    return CacheShape(len(seen), groups, size), tuple(manners[number] for number in range(len(seen)))


def use_paged_attention(module: PreTrainedModel) -> None:
    """Have a model attend by `paged_attention` from now on."""
    AttentionInterface.register(NAME, paged_attention)
    module.set_attn_implementation(NAME)


def paged_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    foreword_step: Step | None = None,
    **how: Any,
) -> tuple[torch.Tensor, None]:
    """Write new keys and values [1, KV heads, N, D] and attend with query [1, heads, N, D].

    Returns [1, N, heads, D]. Raises Mismatch for what plain causal attention does not cover.
    """
    if attention_mask is not None:
        raise _own_mask()
    if foreword_step is None:
        raise Mismatch("attention: the model passes no keyword arguments on, wanted one that passes on all")
    layer = int(module.layer_idx)  # type: ignore[arg-type]  # every attention module of transformers has it
    step = foreword_step
    manner = replace(_manner(query, **how), window=step.manners[layer].window)
    return step.key_values.attend(layer, query[0], key[0], value[0], step.plan, manner)[None], None


def _mask(*, local_size: int | None = None, use_vmap: bool = False, **_: Any) -> torch.Tensor:
    """Return, in the place of a mask, how far back it lets a row look, 0 for as far as there is text.

    Raises Mismatch for a mask that the model has added functions of its own to.
    """
    if use_vmap:
        raise _own_mask()
    return torch.full((1, 1, 1, 1), local_size or 0, dtype=torch.int64)


def _window(mask: torch.Tensor) -> int:
    """Return what `_mask` has put in a mask; raises Mismatch for one that it has not made."""
    if mask.shape != (1, 1, 1, 1) or mask.dtype != torch.int64:
        raise _own_mask()
    return int(mask)


def _own_mask() -> Mismatch:
    return Mismatch("attention: the model brings a mask of its own, wanted plain causal attention")


def _manner(
    query: torch.Tensor,
    *,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **others: Any,
) -> Manner:
    """Return how a layer attends; raises Mismatch for what is none of it."""
    for name in ("s_aux", "position_bias", "head_mask"):
        if others.get(name) is not None:
            raise Mismatch(f"attention: the model uses {name}, wanted plain causal attention")
    return Manner(query.shape[-1] ** -0.5 if scaling is None else scaling, sliding_window or 0, softcap or 0.0)
