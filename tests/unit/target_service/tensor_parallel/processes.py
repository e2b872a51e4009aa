"""Runs a function as the ranks of a gloo group, each in a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from target_service.tensor_parallel.ranks import Ranks

Job = Callable[..., Any]


def run_ranks(size: int, job: Job, *arguments: Any, folder: Path) -> list[Any]:
    """Return what `job(ranks, *arguments)` returned on each of `size` ranks."""
    meeting = str(folder / f"meeting-{job.__name__}-{size}")
    with ProcessPoolExecutor(size, mp_context=get_context("spawn")) as pool:
        ends = [pool.submit(_rank, job, rank, size, meeting, arguments) for rank in range(size)]
        return [end.result(timeout=200) for end in ends]


def _rank(job: Job, rank: int, size: int, meeting: str, arguments: tuple[Any, ...]) -> Any:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(meeting, size), rank=rank, world_size=size)
    try:
        return job(Ranks(stalled_s=100.0), *arguments)
    finally:
        dist.destroy_process_group()
