"""Models cut up by transformers' plan: the ranks together score as the whole model does, in any batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from foreword.errors import ForewordError, InvalidField, Mismatch  # noqa: E402
from foreword.runner.budget import CacheBudget  # noqa: E402
from foreword.runner.plan import Span, StepPlan  # noqa: E402
from foreword.runner.port import Logits  # noqa: E402
from target_service.tensor_parallel import shards  # noqa: E402
from target_service.tensor_parallel.load import part_model  # noqa: E402
from target_service.tensor_parallel.model import TensorParallelModel, column_widths, follow  # noqa: E402
from target_service.tensor_parallel.ranks import Ranks  # noqa: E402
from tests.unit.runner import tiny  # noqa: E402
from tests.unit.target_service.tensor_parallel.processes import run_ranks  # noqa: E402

# gemma2's cap on logits and gemma3's scaled embedding and norms of heads are what a part could get wrong.
FAMILIES = ("llama", "qwen2", "qwen3", "mistral with a window", "gemma2", "gemma3")
TEXT = tuple(int(i) for i in np.random.default_rng(3).integers(0, tiny.V, 40))
OTHER = TEXT[::-1]


def plans() -> list[StepPlan]:
    """A prompt of one, of another beside a row of the first, a block, and a row alone, in pages of 4."""
    first, second = tuple(range(10)), tuple(range(12, 22))
    return [
        StepPlan.of(TEXT[:20], range(20), [Span(0, 20, 0, first)]),
        StepPlan.of((*OTHER[:9], TEXT[20]), range(10), [Span(0, 9, 0, second), Span(9, 10, 20, first)]),
        StepPlan.of(TEXT[21:26], range(5), [Span(0, 5, 21, first)]),
        StepPlan.of((TEXT[26],), [0], [Span(0, 1, 26, first)]),
    ]


def wanted(folder: Path) -> list[Logits]:
    """What the whole model scores, by transformers' own pass."""
    module = transformers.AutoModelForCausalLM.from_pretrained(folder, use_safetensors=True).eval()
    with torch.inference_mode():
        first, second = (
            module(input_ids=torch.tensor([text]), use_cache=False).logits[0].numpy() for text in (TEXT, OTHER)
        )
    return [first[:20], np.concatenate([second[:9], first[20:21]]), first[21:26], first[26:27]]


def part(ranks: Ranks, folder: Path) -> tuple[Any, tuple[int, ...]]:
    from transformers.distributed import DistributedConfig

    module = transformers.AutoModelForCausalLM.from_pretrained(
        folder, use_safetensors=True, distributed_config=DistributedConfig(tp_size=ranks.size)
    ).eval()
    widths = column_widths(module.get_input_embeddings().weight.shape[0], tiny.V, ranks.size)
    shards.take_part(module, ranks)
    budget = CacheBudget(96, page_size=4)
    return part_model(module, ranks, budget, columns=widths[ranks.rank], longest_context=tiny.LONGEST), widths


def scores(ranks: Ranks, folder: Path, steps: Sequence[StepPlan]) -> list[Logits]:
    local, widths = part(ranks, folder)
    if ranks.rank:
        follow(local, ranks, widths)
        return []
    model = TensorParallelModel(local, ranks, widths)
    found = [model.run(plan) for plan in steps]
    model.dismiss()
    return found


def refused(ranks: Ranks, folder: Path) -> ForewordError | None:
    try:
        part(ranks, folder)
    except ForewordError as error:
        return error
    return None


def everything(ranks: Ranks, folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {family: scores(ranks, folder / family, plans()) for family in FAMILIES}
    total, ranks.total = ranks.total, lambda one: one  # type: ignore[method-assign]  # planted: nobody is added
    found["planted"] = scores(ranks, folder / "llama", plans())
    ranks.total = total  # type: ignore[method-assign]
    found["refused"] = {family: refused(ranks, folder / family) for family in ("gemma", "phi3")}
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("models")
    for family in (*FAMILIES, "gemma", "phi3"):
        tiny.module(tiny.config(family)).save_pretrained(made / family)
    return made


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, Any]:
    """What two ranks found, in one start of processes."""
    first, _ = run_ranks(2, everything, folder, folder=folder)
    assert isinstance(first, dict)
    return first


def check(got: list[Logits], wanted: list[Logits]) -> None:
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_two_ranks_score_as_the_whole_model(found: dict[str, Any], folder: Path, family: str) -> None:
    check(found[family], wanted(folder / family))


def test_a_sum_that_leaves_a_rank_out_is_caught(found: dict[str, Any], folder: Path) -> None:
    with pytest.raises(AssertionError):
        check(found["planted"], wanted(folder / "llama"))


def test_what_cannot_be_shared_out_is_refused(found: dict[str, Any]) -> None:
    heads, plan = found["refused"]["gemma"], found["refused"]["phi3"]
    assert isinstance(heads, InvalidField)
    assert "got 2, wanted one of 1, which divide" in heads.message
    assert isinstance(plan, Mismatch)
    assert "wanted one with k_proj as colwise" in plan.message
