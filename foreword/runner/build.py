"""From a source to a runner, its model's identity and its tokenizer: what an engine starts with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from foreword.extras import check_installed
from foreword.models.dtype import Dtype
from foreword.models.identity import synthetic_model_info
from foreword.models.progress import Progress, silent
from foreword.models.source import ModelSource
from foreword.models.synthetic import SyntheticModel
from foreword.models.synthetic_tokenizer import synthetic_tokenizer
from foreword.models.tokenizer import Tokenizer
from foreword.protocol.info import ModelInfo
from foreword.runner.budget import CacheBudget
from foreword.runner.port import Runner
from foreword.testing.synthetic import PAGES, Side, SyntheticRunner


@dataclass(frozen=True, slots=True)
class BuiltRunner:
    """A runner with who its model is and how its ids are written."""

    runner: Runner
    info: ModelInfo
    tokenizer: Tokenizer
    cache_tokens: int | None = None
    """Tokens that its cache was made for; None where they take no memory to speak of."""


def build_runner(
    source: ModelSource,
    *,
    side: Side,
    cache: Path,
    dtype: Dtype = Dtype.FLOAT32,
    threads: int | None = None,
    device: str = "cpu",
    chunk: int = 512,
    budget: CacheBudget | None = None,
    deterministic: bool = False,
    progress: Progress = silent,
) -> BuiltRunner:
    """Return a runner for what `source` names; torch is imported for real models only.

    `side` chooses the law of a synthetic pair, `chunk` bounds the rows of one pass of a real model, `budget` its cache.
    `deterministic` makes logits of real models a function of the context alone; those of synthetic ones are. Raises
    what loading raises, Mismatch for a model whose attention the runner does not compute, and NotFound, before anything
    is fetched, where what runs real models is not installed.
    """
    budget = budget or CacheBudget()
    model = source.synthetic
    if model is not None:
        return _synthetic(source, model, side, budget)
    check_installed("torch", "transformers")
    from foreword.models.load import load_model
    from foreword.runner.real import real_runner

    loaded = load_model(source, dtype=dtype, cache=cache, threads=threads, device=device, progress=progress)
    runner = real_runner(
        loaded.module,
        vocabulary_size=loaded.info.vocabulary_size,
        longest_context=loaded.info.longest_context,
        budget=budget,
        chunk=chunk,
        deterministic=deterministic,
        bits=dtype.bits,
    )
    memory = runner.memory
    return BuiltRunner(runner, loaded.info, loaded.tokenizer, (memory.pages - budget.spare_pages) * memory.page_size)


def _synthetic(source: ModelSource, model: SyntheticModel, side: Side, budget: CacheBudget) -> BuiltRunner:
    tokenizer = synthetic_tokenizer(model)
    pages = PAGES if budget.tokens is None else -(-budget.tokens // budget.page_size) + budget.spare_pages
    runner = SyntheticRunner(model, side=side, pages=pages, page_size=budget.page_size)
    return BuiltRunner(runner, synthetic_model_info(source, model, tokenizer), tokenizer)
