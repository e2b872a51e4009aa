"""The port of a device's memory of keys and values, and the reference for it in plain torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch.nn.functional import pad

from foreword.runner.attend import KEY_BLOCK, TILE, attend
from foreword.runner.layers import CacheShape, Manner
from foreword.runner.plan import Span, StepPlan


class KeyValues(Protocol):
    """Keys and values of all layers in pages."""

    @property
    def page_size(self) -> int:
        """Tokens of a page."""

    @property
    def pages(self) -> int:
        """Pages that there is room for."""

    def copy(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Copy pages (source, copy) of all layers."""

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, plan: StepPlan, manner: Manner
    ) -> torch.Tensor:
        """Write key and value [KV heads, N, D] of the plan's rows, attend with query [heads, N, D]; [N, heads, D]."""


class TorchKeyValues:
    """Any device, any dtype, one span after the other: slow, and what the others are tested against.

    In float32 on a CPU a row's bits do not depend on the rows beside it; see `attend`.
    """

    def __init__(
        self, shape: CacheShape, *, pages: int, page_size: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.pages = pages
        self.page_size = page_size
        room = (shape.layers, pages, page_size, shape.groups, shape.size)
        self._keys = torch.zeros(room, dtype=dtype, device=device)
        self._values = torch.zeros(room, dtype=dtype, device=device)
        self._plan: StepPlan | None = None
        self._seen: dict[tuple[Span, int], tuple[int, torch.Tensor | None]] = {}
        """By span and window what rows may see: made once a step and shared by the layers."""

    def copy(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Copy pages (source, copy) of all layers."""
        for source, copy in pairs:
            self._keys[:, copy] = self._keys[:, source]
            self._values[:, copy] = self._values[:, source]

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, plan: StepPlan, manner: Manner
    ) -> torch.Tensor:
        """Write key and value [KV heads, N, D] of the plan's rows, attend with query [heads, N, D]; [N, heads, D]."""
        if plan is not self._plan:
            self._plan, self._seen = plan, {}
        out = query.new_empty((query.shape[1], query.shape[0], query.shape[2]))
        for span in plan.spans:
            rows = slice(span.first, span.last)
            keys = self._written(self._keys[layer], span, key[:, rows])
            values = self._written(self._values[layer], span, value[:, rows])
            if (span, manner.window) not in self._seen:
                groups = query.shape[0] // key.shape[0]
                self._seen[span, manner.window] = _visible(span, manner.window, groups, query)
            low, mask = self._seen[span, manner.window]
            softcap = manner.softcap or None
            attended = attend(
                query[:, rows], keys[:, low:], values[:, low:], mask=mask, scale=manner.scale, softcap=softcap
            )
            out[rows] = attended.transpose(0, 1)
        return out

    def _written(self, pool: torch.Tensor, span: Span, new: torch.Tensor) -> torch.Tensor:
        """Write the span's rows [KV heads, n, D] and return all of its sequence, [KV heads, t, D]."""
        pages = torch.tensor(span.pages, device=pool.device)
        places = torch.arange(span.start, span.end, device=pool.device)
        pool[pages[places // self.page_size], places % self.page_size] = new.transpose(0, 1)
        held = pool[pages].flatten(0, 1)[: span.end]
        return held.transpose(0, 1)


def _visible(span: Span, window: int, groups: int, like: torch.Tensor) -> tuple[int, torch.Tensor | None]:
    """Return where the keys begin that rows may see, and an additive mask unless all see all.

    The mask is [groups · n, keys], its rows filled up to whole tiles.
    """
    count = span.last - span.first
    first = 0 if window == 0 else max(0, span.start - window + 1)
    low = first // KEY_BLOCK * KEY_BLOCK
    if count == 1 and first == low:
        return low, None
    rows = torch.arange(span.start, span.end, device=like.device)[:, None]
    keys = torch.arange(low, span.end, device=like.device)[None, :]
    hidden = keys > rows
    if window:
        hidden |= keys <= rows - window
    mask = torch.zeros(hidden.shape, dtype=like.dtype, device=like.device).masked_fill_(hidden, -torch.inf)
    return low, pad(mask.repeat(groups, 1), (0, 0, 0, -groups * count % TILE))
