"""What ranks tell each other: sums whose bits do not depend on the batch, plans of any length, uneven columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

from target_service.tensor_parallel.ranks import Ranks  # noqa: E402
from tests.unit.target_service.tensor_parallel.processes import run_ranks  # noqa: E402

ROWS, WIDTH = 16, 72
LENGTHS = (0, 1, 1022, 1023, 1024, 5000)


def _parts(ranks: Ranks) -> torch.Tensor:
    return torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(ranks.rank))


def sums(ranks: Ranks, *, in_order: bool) -> list[bytes]:
    """Sum the first 1, 2, … rows of this rank's parts; return the bits of the first row of each sum, then all."""
    parts = _parts(ranks)
    found = []
    for count in range(1, ROWS + 1):
        rows = parts[:count].clone()
        if in_order:
            rows = ranks.total(rows)
        else:
            dist.all_reduce(rows)
        found += [rows[0].numpy().tobytes()]
    return [*found, rows.numpy().tobytes()]


def in_order(ranks: Ranks) -> list[bytes]:
    return sums(ranks, in_order=True)


def by_all_reduce(ranks: Ranks) -> list[bytes]:
    return sums(ranks, in_order=False)


def in_bfloat16(ranks: Ranks) -> list[float]:
    """256 + 1 + 1 is 258 where it is rounded once, and 256 where it is rounded after every addition."""
    part = torch.tensor([[256.0, 1.0, 1.0][ranks.rank]], dtype=torch.bfloat16)
    return ranks.total(part).float().tolist()


def check_same_bits(found: list[list[bytes]]) -> None:
    first = found[0]
    assert all(other == first for other in found)
    assert len(set(first[:-1])) == 1


def messages(ranks: Ranks) -> list[list[int]]:
    """Rank 0 tells plans of all lengths and the end; the others return what they heard."""
    if ranks.rank == 0:
        for length in LENGTHS:
            ranks.tell(np.arange(length, dtype=np.int32))
        ranks.dismiss()
        return []
    heard = []
    while (plan := ranks.hear()) is not None:
        heard.append(plan.tolist())
    return heard


def columns(ranks: Ranks) -> tuple[list[list[float]] | None, int]:
    widths = (4, 4, 1)
    mine = np.full((2, widths[ranks.rank]), float(ranks.rank), np.float32)
    gathered = ranks.gather(mine, widths)
    return None if gathered is None else gathered.tolist(), ranks.least(7 - ranks.rank)


def every_job(ranks: Ranks) -> dict[str, Any]:
    return {job.__name__: job(ranks) for job in (in_order, by_all_reduce, in_bfloat16, messages, columns)}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What each job found, rank by rank: starting three processes takes most of the time."""
    by_rank = run_ranks(3, every_job, folder=tmp_path_factory.mktemp("meeting"))
    return {name: [jobs[name] for jobs in by_rank] for name in by_rank[0]}


def test_a_sum_is_a_function_of_its_row_alone(found: dict[str, list[Any]]) -> None:
    check_same_bits(found["in_order"])
    wanted = torch.stack(
        [torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(rank)).double() for rank in range(3)]
    ).sum(0)
    got = np.frombuffer(found["in_order"][0][-1], np.float32).reshape(ROWS, WIDTH)
    np.testing.assert_allclose(got, wanted.numpy(), atol=1e-6)


def test_all_reduce_is_caught(found: dict[str, list[Any]]) -> None:
    with pytest.raises(AssertionError):
        check_same_bits(found["by_all_reduce"])


def test_short_formats_are_rounded_once(found: dict[str, list[Any]]) -> None:
    assert found["in_bfloat16"] == [[258.0]] * 3


def test_plans_of_any_length_arrive_whole(found: dict[str, list[Any]]) -> None:
    _, *heard = found["messages"]
    assert heard == [[list(range(length)) for length in LENGTHS]] * 2


def test_columns_come_together_on_rank_0(found: dict[str, list[Any]]) -> None:
    first, *others = found["columns"]
    assert first == ([[0.0] * 4 + [1.0] * 4 + [2.0]] * 2, 5)
    assert others == [(None, 5)] * 2
