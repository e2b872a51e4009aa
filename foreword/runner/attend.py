"""Attention of one slot's rows over its keys; in float32 on a CPU the same bits whatever the rows come with.

A row of logits is then a function of its context alone: not of the batch, of the size of a block, of where a long
prompt is cut, or of the number of threads. That makes the text under `match` the same with any draft and with none. It
rests on how torch's matrix kernels order their additions, measured for AVX2; elsewhere it is right to rounding only.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.nn.functional import pad, scaled_dot_product_attention

TILE = 8
"""Rows of a tile of the float32 matrix kernels; measured for AVX2."""
_ROW_BLOCK = 32 * TILE
"""Query rows whose scores are held at once."""
_FEWEST_KEYS = 16
"""Below it the kernels for scores and softmax are others; measured for AVX2."""
KEY_BLOCK = 128
"""Keys whose values are summed by one matrix product; the kernel itself cuts longer sums at places that vary."""


def attend(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    *,
    mask: torch.Tensor | None,
    scale: float,
    softcap: float | None,
) -> torch.Tensor:
    """Attend with query [heads, n, D] to keys [KV heads, t, D]; return [heads, n, D].

    `mask` is added to the scores of the rows of each group of heads, [r, t] with r = n · heads / KV heads rounded up to
    whole tiles; None hides nothing.
    """
    heads, count, size = query.shape
    # The heads of a group share keys, so they are further rows: no key is copied.
    grouped = query.reshape(keys.shape[0], -1, size)
    if softcap is None and not _exact_rows(query):
        fitting = None if mask is None else mask[: grouped.shape[1]]
        attended = scaled_dot_product_attention(
            grouped[None], keys[None], values[None], attn_mask=fitting, scale=scale
        )[0]
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

    Rows are filled up to whole tiles of the matrix kernel, which adds up a partly filled tile in another order, as it
    does with very few keys. Values are summed over blocks of keys that start at fixed positions; hidden keys add 0.
    """
    count, width = rows.shape[1], keys.shape[1]
    rows = pad(rows, (0, 0, 0, -count % TILE))
    if width < _FEWEST_KEYS:
        missing = _FEWEST_KEYS - width
        keys, values = pad(keys, (0, 0, 0, missing)), pad(values, (0, 0, 0, missing))
        hidden = rows.new_zeros((rows.shape[1], width)) if mask is None else mask
        mask = pad(hidden, (0, missing), value=-torch.inf)
    scores = _scores(rows, keys, mask=mask, scale=scale, softcap=softcap)
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(rows.dtype)
    summed = torch.matmul(weights[..., :KEY_BLOCK], values[:, :KEY_BLOCK])
    for first in range(KEY_BLOCK, width, KEY_BLOCK):
        block = slice(first, first + KEY_BLOCK)
        summed += torch.matmul(weights[..., block], values[:, block])
    return summed[:, :count]


def _scores(
    rows: torch.Tensor, keys: torch.Tensor, *, mask: torch.Tensor | None, scale: float, softcap: float | None
) -> torch.Tensor:
    """Return scores [KV heads, r, t]; one operation where there is no soft cap, for they are many and small."""
    if softcap is None and mask is not None:
        return torch.baddbmm(mask, rows, keys.transpose(1, 2), alpha=scale)
    scores = torch.baddbmm(rows[:, :1, :1], rows, keys.transpose(1, 2), beta=0, alpha=scale)
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    return scores if mask is None else scores + mask
