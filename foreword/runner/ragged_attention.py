"""Attention over ragged rows: many slots packed in one sequence, each attending to its own keys only.

It is registered with transformers' public AttentionInterface under a name that has no mask function, for which the
library makes no mask. The plan of the step reaches it as an extra keyword argument of the model's forward.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.functional import pad, scaled_dot_product_attention

from foreword.errors import Mismatch
from foreword.runner.kv_buffers import KeyValueBuffers

NAME = "foreword_ragged"
"""Name of the attention function."""

_TILE = 8
"""Rows of a tile of the float32 matrix kernels; measured for AVX2."""
_ROW_BLOCK = 32 * _TILE
"""Query rows whose scores are held at once."""
_FEWEST_KEYS = 16
"""Below it the kernels for scores and softmax are others; measured for AVX2."""
KEY_BLOCK = 128
"""Keys whose values are summed by one matrix product; the kernel itself cuts longer sums at places that vary."""

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
        """Return where the keys begin that rows may see, and an additive mask [groups · n, keys] unless all see all.

        A row at position i sees keys i - window + 1 … i. Masks are made once a step and shared by the layers.
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
        return low, mask.repeat(groups, 1)


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
        attended = _attend(query[0, :, rows], keys[:, low:], values[:, low:], mask=mask, scale=scale, softcap=softcap)
        out[0, rows] = attended.transpose(0, 1)
    return out, None


def _attend(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    *,
    mask: torch.Tensor | None,
    scale: float,
    softcap: float | None,
) -> torch.Tensor:
    """Attend with query [heads, n, D] to keys [KV heads, t, D]; return [heads, n, D]."""
    heads, count, size = query.shape
    # The heads of a group share keys, so they are further rows: no key is copied.
    grouped = query.reshape(keys.shape[0], -1, size)
    if softcap is None and not _exact_rows(query):
        attended = scaled_dot_product_attention(grouped[None], keys[None], values[None], attn_mask=mask, scale=scale)[0]
    else:
        blocks = [
            _attend_rows(rows, keys, values, mask=part, scale=scale, softcap=softcap)
            for rows, part in _row_blocks(grouped, mask)
        ]
        attended = blocks[0] if len(blocks) == 1 else torch.cat(blocks, dim=1)
    return attended.reshape(heads, count, values.shape[-1])


def _exact_rows(query: torch.Tensor) -> bool:
    """Return whether a row's result should not depend, to the last bit, on the rows beside it."""
    return query.dtype == torch.float32 and query.device.type == "cpu"


def _row_blocks(grouped: torch.Tensor, mask: torch.Tensor | None) -> Iterator[tuple[torch.Tensor, torch.Tensor | None]]:
    """Cut query rows [KV heads, r, D] and their mask [r, t] into blocks, which bounds the memory of the scores."""
    for first in range(0, grouped.shape[1], _ROW_BLOCK):
        block = slice(first, first + _ROW_BLOCK)
        yield grouped[:, block], None if mask is None else mask[block]


def _attend_rows(
    rows: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    *,
    mask: torch.Tensor | None,
    scale: float,
    softcap: float | None,
) -> torch.Tensor:
    """Attend by plain matrix products with rows [KV heads, r, D]; return the same shape.

    In float32 a row's result is the same to the last bit whatever rows come with it and however many keys they see: rows
    are filled up to whole tiles of the matrix kernel, which adds up a partly filled tile in another order, as it does with
    very few keys; and values are summed over blocks of keys that start at fixed positions, where keys of weight 0 add 0.
    """
    count, width = rows.shape[1], keys.shape[1]
    fill, missing = -count % _TILE, max(0, _FEWEST_KEYS - width)
    rows = pad(rows, (0, 0, 0, fill)) * scale
    if missing:
        keys, values = pad(keys, (0, 0, 0, missing)), pad(values, (0, 0, 0, missing))
    scores = torch.matmul(rows, keys.transpose(1, 2))
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    if mask is not None:
        scores[..., :width] += pad(mask, (0, 0, 0, fill))
    if missing:
        scores[..., width:] = -torch.inf
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(rows.dtype)
    summed = torch.matmul(weights[..., :KEY_BLOCK], values[:, :KEY_BLOCK])
    for first in range(KEY_BLOCK, width, KEY_BLOCK):
        block = slice(first, first + KEY_BLOCK)
        summed += torch.matmul(weights[..., block], values[:, block])
    return summed[:, :count]


def _refuse(attention_mask: torch.Tensor | None, others: dict[str, Any]) -> None:
    """Raise Mismatch for what this attention does not compute."""
    if attention_mask is not None:
        raise Mismatch("attention: the model brings a mask of its own, wanted plain causal attention")
    for name in ("s_aux", "position_bias", "head_mask"):
        if others.get(name) is not None:
            raise Mismatch(f"attention: the model uses {name}, wanted plain causal attention")
