"""Keys and values on a CPU: float32, pages of whole tiles in the layout that the compiled kernels read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from foreword.errors import InvalidField
from foreword.runner.kernels.attention import TILE, attend, store
from foreword.runner.kernels.common import Integers
from foreword.runner.layers import CacheShape, Manner
from foreword.runner.plan import StepPlan

_MULTIPLE = 8
"""What the dimension of a head is a multiple of."""


class TiledKeyValues:
    """Room for `pages` pages; the system hands out its memory as pages are first written.

    A row's bits depend on its own sequence alone: not on the rows beside it, on where a prompt was cut, on pages or on
    threads.
    """

    def __init__(self, shape: CacheShape, *, pages: int, page_size: int) -> None:
        if page_size < TILE or page_size % TILE:
            raise InvalidField("page_size", page_size, f"a multiple of {TILE} tokens")
        if shape.size % _MULTIPLE:
            raise InvalidField("head_dim", shape.size, f"a multiple of {_MULTIPLE}")
        self.pages = pages
        self.page_size = page_size
        self._per_page = page_size // TILE
        tiles = pages * self._per_page
        # Laid out for `kernels.attention`, whose callers take them as they are.
        self.keys = np.zeros((shape.layers, tiles, shape.groups, shape.size // 8, 8, TILE), np.float32)
        self.values = np.zeros((shape.layers, tiles, shape.groups, TILE, shape.size), np.float32)

    @staticmethod
    def fits(shape: CacheShape, page_size: int) -> bool:
        """Whether heads and pages are of a size that the kernels take."""
        return page_size % TILE == 0 and shape.size % _MULTIPLE == 0

    def copy(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Copy pages (source, copy) of all layers."""
        for source, copy in pairs:
            old = slice(source * self._per_page, (source + 1) * self._per_page)
            new = slice(copy * self._per_page, (copy + 1) * self._per_page)
            self.keys[:, new] = self.keys[:, old]
            self.values[:, new] = self.values[:, old]

    def tables(self, plan: StepPlan) -> Integers:
        """Return int32 [spans, tiles]: the tiles of every span."""
        if self._per_page == 1:
            return plan.tables
        inner = np.arange(self._per_page, dtype=np.int32)
        tiles: Integers = (plan.tables[:, :, None] * np.int32(self._per_page) + inner).reshape(len(plan.tables), -1)
        return tiles

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, plan: StepPlan, manner: Manner
    ) -> torch.Tensor:
        """Write key and value [KV heads, N, D] of the plan's rows, attend with query [heads, N, D]; [N, heads, D]."""
        rows = torch.cat([query, key, value]).transpose(0, 1).flatten(1).float().numpy()
        heads, tables = query.shape[0], self.tables(plan)
        keys, values = self.keys[layer], self.values[layer]
        store(rows, heads, plan.positions, plan.owners, tables, keys, values)
        out = np.zeros((rows.shape[0], heads * values.shape[3]), np.float32)
        attend(
            rows,
            heads,
            plan.positions,
            plan.owners,
            tables,
            keys,
            values,
            out,
            manner.scale,
            manner.window,
            manner.softcap,
        )
        return torch.from_numpy(out).reshape(len(out), heads, -1).to(query.dtype)
