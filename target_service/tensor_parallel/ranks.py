"""What ranks tell each other: plans, parts of sums, and columns of logits.

Sums are formed by every rank from the parts of all, in the order of the ranks. All-reduce adds different pieces of a
tensor in different orders, and where a piece begins depends on the tensor's size: with three ranks on gloo a row came
out with other bits beside 15 more rows than alone. Here a row's sum is a function of that row, and all ranks get the
same bits. On gloo it is also faster: see docs/decisions/0012-tensor-parallel.md.
"""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist

from foreword.runner.plan import Integers
from foreword.runner.port import Logits

_SHORT = 1024
"""Integers of the first message of a plan; longer plans take a second one. Most steps of decoding fit."""
_STOP = -1
_WIDER = {torch.float32: torch.float64, torch.bfloat16: torch.float32, torch.float16: torch.float32}
"""What sums are formed in: three ranks came closer to a model in float64 than one, whose sums are all in float32."""
_IDLE = timedelta(days=365)
"""How long a rank may wait for the next plan: a target may have nothing to do for long."""


class Ranks:
    """This rank's place among `size` ranks, of which rank 0 tells the others what to do."""

    def __init__(self, *, stalled_s: float) -> None:
        """Join the default process group, which exists; a rank that keeps others waiting for `stalled_s` is lost.

        All ranks call this at the same time.
        """
        self.rank = dist.get_rank()
        self.size = dist.get_world_size()
        self._tensors = dist.new_group(timeout=timedelta(seconds=stalled_s))
        self._plans = dist.new_group(timeout=_IDLE, backend="gloo")
        self._host = dist.new_group(timeout=timedelta(seconds=stalled_s), backend="gloo")

    def total(self, part: torch.Tensor) -> torch.Tensor:
        """Return the sum of all ranks' parts, added in the order of the ranks and rounded once."""
        part = part.contiguous()
        parts = [torch.empty_like(part) if rank != self.rank else part for rank in range(self.size)]
        if part.device.type == "cpu":
            self._exchange(part, parts)
        else:
            dist.all_gather(parts, part, group=self._tensors)
        summed = parts[0].to(_WIDER[part.dtype]) + parts[1]
        for other in parts[2:]:
            summed += other
        return summed.to(part.dtype)

    def _exchange(self, part: torch.Tensor, parts: list[torch.Tensor]) -> None:
        """Send this rank's part to all others and receive theirs.

        Gloo's collectives pass through threads of their own and go round in a ring; this is straight, and takes half
        the time of its all-gather.
        """
        others = [rank for rank in range(self.size) if rank != self.rank]
        works = [dist.irecv(parts[rank], rank, group=self._tensors) for rank in others]
        works += [dist.isend(part, rank, group=self._tensors) for rank in others]
        for work in works:
            assert work is not None  # it is for those who are not in the group
            work.wait()

    def tell(self, plan: Integers) -> None:
        """Send a plan to all other ranks; rank 0 only."""
        self._send(np.concatenate([np.array([len(plan)], np.int32), plan]))

    def dismiss(self) -> None:
        """Tell all other ranks to end; rank 0 only."""
        self._send(np.array([_STOP], np.int32))

    def hear(self) -> Integers | None:
        """Wait for the next plan; None is the end. All ranks but 0."""
        first = torch.empty(_SHORT, dtype=torch.int32)
        dist.broadcast(first, 0, group=self._plans)
        length = int(first[0])
        if length == _STOP:
            return None
        if length < _SHORT:
            return first[1 : 1 + length].numpy()
        rest = torch.empty(length + 1 - _SHORT, dtype=torch.int32)
        dist.broadcast(rest, 0, group=self._plans)
        return torch.cat([first[1:], rest]).numpy()

    def gather(self, columns: Logits, widths: tuple[int, ...]) -> Logits | None:
        """Bring the columns [K, widths[rank]] of all ranks together; rank 0 gets [K, sum of widths], others None."""
        rows, widest = columns.shape[0], max(widths)
        mine = torch.from_numpy(columns)
        if columns.shape[1] < widest:
            mine = torch.nn.functional.pad(mine, (0, widest - columns.shape[1]))
        if self.rank:
            dist.gather(mine, None, 0, group=self._host)
            return None
        parts = [torch.empty((rows, widest)) for _ in widths]
        dist.gather(mine, parts, 0, group=self._host)
        gathered: Logits = np.concatenate(
            [part.numpy()[:, :width] for part, width in zip(parts, widths, strict=True)], axis=1
        )
        return gathered

    def least(self, number: int) -> int:
        """Return the least of all ranks' numbers."""
        least = torch.tensor([number])
        dist.all_reduce(least, dist.ReduceOp.MIN, group=self._host)
        return int(least)

    def _send(self, numbers: Integers) -> None:
        first = np.zeros(_SHORT, np.int32)
        head = numbers[:_SHORT]
        first[: len(head)] = head
        dist.broadcast(torch.from_numpy(first), 0, group=self._plans)
        if len(numbers) > _SHORT:
            dist.broadcast(torch.from_numpy(numbers[_SHORT:]), 0, group=self._plans)
