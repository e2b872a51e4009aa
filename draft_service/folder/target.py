"""What a distilled draft takes over from its target: embedding, head and everything around the layers."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedModel

from foreword.models.dtype import Dtype
from foreword.models.fast_tokenizer import FastTokenizer
from foreword.models.load import load_model
from foreword.models.progress import Progress, silent
from foreword.models.source import ModelSource
from foreword.protocol.info import ModelInfo
from foreword.values import replace


@dataclass(frozen=True, slots=True)
class Frame:
    """A target without most of its layers."""

    module: PreTrainedModel
    info: ModelInfo
    """Of the whole target."""
    tokenizer: FastTokenizer
    embedding_digest: str


def load_frame(source: ModelSource, *, cache: Path, threads: int | None, progress: Progress = silent) -> Frame:
    """Load a target with its first layer alone, in float32; raises what loading raises."""
    first = replace(source, layers=1)
    loaded = load_model(first, dtype=Dtype.FLOAT32, cache=cache, threads=threads, progress=progress)
    digest = loaded.info.weights_digest.partition("#")[0]
    info = replace(loaded.info, weights_digest=digest, name=source.text, source=source.text)
    return Frame(loaded.module, info, loaded.tokenizer, embedding_digest(loaded.module))


def embedding_digest(module: PreTrainedModel) -> str:
    """Return the SHA-256 over the float32 values of embedding and head; of one where both are the same."""
    embedding = module.get_input_embeddings().weight
    head = module.get_output_embeddings().weight  # type: ignore[no-untyped-call]
    assert isinstance(embedding, torch.Tensor)
    digest = hashlib.sha256(embedding.detach().float().cpu().numpy().data)
    if head.data_ptr() != embedding.data_ptr():
        digest.update(head.detach().float().cpu().numpy().data)
    return digest.hexdigest()
