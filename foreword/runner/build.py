"""From a source to a runner, its model's identity and its tokenizer: what an engine starts with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from foreword.models.dtype import Dtype
from foreword.models.identity import synthetic_model_info
from foreword.models.progress import Progress, silent
from foreword.models.source import ModelSource
from foreword.models.synthetic import SyntheticModel
from foreword.models.synthetic_tokenizer import SyntheticTokenizer
from foreword.models.tokenizer import Tokenizer
from foreword.protocol.info import ModelInfo
from foreword.runner.memory import token_bytes
from foreword.runner.port import Runner
from foreword.testing.synthetic import Side, SyntheticRunner


@dataclass(frozen=True, slots=True)
class BuiltRunner:
    """A runner with who its model is and how its ids are written."""

    runner: Runner
    info: ModelInfo
    tokenizer: Tokenizer
    token_bytes: int | None = None
    """Bytes of one token's keys and values; None where they take no memory to speak of."""


def build_runner(
    source: ModelSource,
    *,
    side: Side,
    cache: Path,
    dtype: Dtype = Dtype.FLOAT32,
    threads: int | None = None,
    device: str = "cpu",
    chunk: int = 512,
    progress: Progress = silent,
) -> BuiltRunner:
    """Return a runner for what `source` names; torch is imported for real models only.

    `side` chooses the law of a synthetic pair, `chunk` bounds the rows of one pass of a real model. Raises what loading
    raises, and Mismatch for a model whose attention the runner does not compute.
    """
    model = source.synthetic
    if model is not None:
        return _synthetic(source, model, side)
    from foreword.models.load import load_model
    from foreword.runner.ragged import RaggedRunner

    loaded = load_model(source, dtype=dtype, cache=cache, threads=threads, device=device, progress=progress)
    runner = RaggedRunner(
        loaded.module,
        vocabulary_size=loaded.info.vocabulary_size,
        longest_context=loaded.info.longest_context,
        chunk=chunk,
    )
    size = token_bytes(loaded.module.config.get_text_config(), loaded.module.dtype.itemsize)
    return BuiltRunner(runner, loaded.info, loaded.tokenizer, size)


def _synthetic(source: ModelSource, model: SyntheticModel, side: Side) -> BuiltRunner:
    tokenizer = SyntheticTokenizer(model)
    return BuiltRunner(SyntheticRunner(model, side=side), synthetic_model_info(source, model, tokenizer), tokenizer)
