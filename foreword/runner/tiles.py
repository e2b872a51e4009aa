"""Keys and values on a CPU: float32, pages of whole tiles in the layout that the compiled kernels read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from foreword.errors import InvalidField
from foreword.runner.kernels.attention import TILE, attend, store
from foreword.runner.kernels.common import Floats, Integers
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
        self._keys = np.zeros((shape.layers, tiles, shape.groups, shape.size // 8, 8, TILE), np.float32)
        self._values = np.zeros((shape.layers, tiles, shape.groups, TILE, shape.size), np.float32)

    @staticmethod
    def fits(shape: CacheShape, page_size: int) -> bool:
        """Whether heads and pages are of a size that the kernels take."""
        return page_size % TILE == 0 and shape.size % _MULTIPLE == 0

    def copy(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Copy pages (source, copy) of all layers."""
        for source, copy in pairs:
            old = slice(source * self._per_page, (source + 1) * self._per_page)
            new = slice(copy * self._per_page, (copy + 1) * self._per_page)
            self._keys[:, new] = self._keys[:, old]
            self._values[:, new] = self._values[:, old]

    def tables(self, plan: StepPlan) -> Integers:
        """Return int32 [spans, tiles]: the tiles of every span."""
        if self._per_page == 1:
            return plan.tables
        inner = np.arange(self._per_page, dtype=np.int32)
        tiles: Integers = (plan.tables[:, :, None] * np.int32(self._per_page) + inner).reshape(len(plan.tables), -1)
        return tiles

    def attend_packed(
        self, layer: int, rows: Floats, heads: int, plan: StepPlan, *, tables: Integers, manner: Manner
    ) -> Floats:
        """Write keys and values of packed rows [N, (heads + 2 KV heads) · D] and attend; float32 [N, heads · D].

        Rows may come filled up: what comes of rows beyond those of the plan is 0.
        """
        keys, values = self._keys[layer], self._values[layer]
        store(rows, heads, plan.positions, plan.owners, tables, keys, values)
        out = np.empty((rows.shape[0], heads * values.shape[3]), np.float32)
        out[len(plan.positions) :] = 0
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
        return out

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, plan: StepPlan, manner: Manner
    ) -> torch.Tensor:
        """Write key and value [KV heads, N, D] of the plan's rows, attend with query [heads, N, D]; [N, heads, D]."""
        rows = torch.cat([query, key, value]).transpose(0, 1).flatten(1).float().numpy()
        out = self.attend_packed(layer, rows, query.shape[0], plan, tables=self.tables(plan), manner=manner)
        return torch.from_numpy(out).reshape(len(out), query.shape[0], -1).to(query.dtype)
