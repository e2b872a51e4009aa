"""Attention over ragged rows: many slots packed in one sequence, each attending to its own keys only.

It is registered with transformers' public AttentionInterface under a name that has no mask function, for which the
library makes no mask. The plan of the step reaches it as an extra keyword argument of the model's forward.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.functional import pad

from foreword.errors import Mismatch
from foreword.runner.attend import KEY_BLOCK, TILE, attend
from foreword.runner.kv_buffers import KeyValueBuffers

NAME = "foreword_ragged"
"""Name of the attention function."""

_Range = tuple[int, torch.Tensor | None]


@dataclass(slots=True)
class Span:
    """The rows first … last - 1 of the packed sequence: one slot's tokens at positions start, start + 1, …"""

    buffers: KeyValueBuffers
    first: int
    last: int
    start: int
    ranges: dict[int | None, _Range] = field(default_factory=dict)

    def visible(self, window: int | None, groups: int, like: torch.Tensor) -> _Range:
        """Return where the keys begin that rows may see, and an additive mask unless all see all.

        A row at position i sees keys i - window + 1 … i. The mask is [groups · n, keys], its rows filled up to whole
        tiles; it is made once a step and shared by the layers.
        """
        if window not in self.ranges:
            self.ranges[window] = self._visible(window, groups, like)
        return self.ranges[window]

    def _visible(self, window: int | None, groups: int, like: torch.Tensor) -> _Range:
        count = self.last - self.first
        first = 0 if window is None else max(0, self.start - window + 1)
        low = first // KEY_BLOCK * KEY_BLOCK
        if count == 1 and first == low:
            return low, None
        rows = torch.arange(self.start, self.start + count, device=like.device)[:, None]
        keys = torch.arange(low, self.start + count, device=like.device)[None, :]
        hidden = keys > rows
        if window is not None:
            hidden |= keys <= rows - window
        mask = torch.zeros(hidden.shape, dtype=like.dtype, device=like.device).masked_fill_(hidden, -torch.inf)
        return low, pad(mask.repeat(groups, 1), (0, 0, 0, -groups * count % TILE))


@dataclass(slots=True)
class StepPlan:
    """The spans of one forward pass, in the order of the packed rows."""

    spans: list[Span]


def ragged_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    foreword_plan: StepPlan,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """Write each span's new keys and values [1, KV heads, N, D] and attend with query [1, heads, N, D].

    Returns [1, N, heads, D]. Raises Mismatch for what plain causal attention does not cover.
    """
    _refuse(attention_mask, others)
    layer = int(module.layer_idx)  # type: ignore[arg-type]  # every attention module of transformers has it
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    out = query.new_empty((1, query.shape[2], query.shape[1], value.shape[-1]))
    for span in foreword_plan.spans:
        rows = slice(span.first, span.last)
        keys, values = span.buffers.write(layer, span.start, key[0, :, rows], value[0, :, rows])
        low, mask = span.visible(sliding_window, query.shape[1] // key.shape[1], query)
        attended = attend(query[0, :, rows], keys[:, low:], values[:, low:], mask=mask, scale=scale, softcap=softcap)
        out[0, rows] = attended.transpose(0, 1)
    return out, None


def _refuse(attention_mask: torch.Tensor | None, others: dict[str, Any]) -> None:
    """Raise Mismatch for what this attention does not compute."""
    if attention_mask is not None:
        raise Mismatch("attention: the model brings a mask of its own, wanted plain causal attention")
    for name in ("s_aux", "position_bias", "head_mask"):
        if others.get(name) is not None:
            raise Mismatch(f"attention: the model uses {name}, wanted plain causal attention")
