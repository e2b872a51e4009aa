"""Keys and values on a GPU, read through block tables by torch's variable-length flash attention."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.attention.varlen import varlen_attn

from foreword.runner.layers import CacheShape, Manner
from foreword.runner.plan import StepPlan


class VarlenKeyValues:
    """One call a layer for all sessions; float16 and bfloat16 only, and no soft cap.

    `deterministic` keeps the kernel from splitting long sequences in a way that depends on the batch.
    """

    def __init__(
        self,
        shape: CacheShape,
        *,
        pages: int,
        page_size: int,
        dtype: torch.dtype,
        device: torch.device,
        deterministic: bool = False,
    ) -> None:
        self.pages = pages
        self.page_size = page_size
        room = (shape.layers, pages, page_size, shape.groups, shape.size)
        self._keys = torch.zeros(room, dtype=dtype, device=device)
        self._values = torch.zeros(room, dtype=dtype, device=device)
        self._splits = 1 if deterministic else None
        self._plan: StepPlan | None = None
        self._tables: _Tables

    @staticmethod
    def fits(dtype: torch.dtype, device: torch.device, manners: Sequence[Manner]) -> bool:
        """Whether the kernel computes what these layers do."""
        short = dtype in (torch.float16, torch.bfloat16)
        return short and device.type == "cuda" and not any(manner.softcap for manner in manners)

    def copy(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Copy pages (source, copy) of all layers."""
        if pairs:
            sources, copies = torch.tensor(pairs, device=self._keys.device).T
            self._keys[:, copies] = self._keys[:, sources]
            self._values[:, copies] = self._values[:, sources]

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, plan: StepPlan, manner: Manner
    ) -> torch.Tensor:
        """Write key and value [KV heads, N, D] of the plan's rows, attend with query [heads, N, D]; [N, heads, D]."""
        if plan is not self._plan:
            self._plan, self._tables = plan, _Tables(plan, self.page_size, query.device)
        tables = self._tables
        self._keys[layer].flatten(0, 1)[tables.places] = key.transpose(0, 1)
        self._values[layer].flatten(0, 1)[tables.places] = value.transpose(0, 1)
        attended = varlen_attn(
            query.transpose(0, 1).contiguous(),
            self._keys[layer],
            self._values[layer],
            tables.starts,
            None,
            tables.most_rows,
            tables.longest,
            scale=manner.scale,
            window_size=(manner.window - 1 if manner.window else -1, 0),
            enable_gqa=query.shape[0] != key.shape[0],
            seqused_k=tables.lengths,
            block_table=tables.pages,
            num_splits=self._splits,
        )
        assert isinstance(attended, torch.Tensor)  # nothing else was asked for
        return attended


class _Tables:
    """What the kernel wants to know of a plan; made once a step and shared by the layers."""

    def __init__(self, plan: StepPlan, page_size: int, device: torch.device) -> None:
        rows = [span.last - span.first for span in plan.spans]
        self.most_rows = max(rows)
        self.longest = max(span.end for span in plan.spans)
        self.starts = torch.tensor([0, *(span.last for span in plan.spans)], dtype=torch.int32, device=device)
        self.lengths = torch.tensor([span.end for span in plan.spans], dtype=torch.int32, device=device)
        self.pages = torch.from_numpy(plan.tables).to(device)
        pages = plan.tables[plan.owners, plan.positions // page_size]
        self.places = torch.from_numpy(pages.astype("int64") * page_size + plan.positions % page_size).to(device)
