"""Loading a real model: safetensors only, in the format asked for, and no code but that of transformers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel
from transformers.distributed.configuration_utils import DistributedConfig

from foreword.errors import InvalidField, Mismatch
from foreword.models.device import find_device
from foreword.models.dtype import Dtype
from foreword.models.fast_tokenizer import FastTokenizer
from foreword.models.identity import real_model_info
from foreword.models.local import local_folder
from foreword.models.progress import Progress, silent
from foreword.models.quiet import quiet
from foreword.models.source import ModelSource
from foreword.models.whole import check_complete, check_no_more
from foreword.protocol.info import ModelInfo


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """Weights in memory, with who they are and their tokenizer."""

    module: PreTrainedModel
    info: ModelInfo
    tokenizer: FastTokenizer
    folder: Path
    embedding_rows: int
    """Rows of the embedding over all ranks: the vocabulary and what fills it up."""


def load_model(
    source: ModelSource,
    *,
    dtype: Dtype = Dtype.FLOAT32,
    cache: Path,
    threads: int | None = None,
    device: str = "cpu",
    ranks: int = 1,
    progress: Progress = silent,
) -> LoadedModel:
    """Fetch, convert and load what `source` names; `threads` is for the whole process, None leaves torch's choice.

    With `ranks` over 1 every rank of the default process group calls this and gets its part of the weights by
    transformers' tensor-parallel plan.
    Raises NotFound, Unavailable, Corrupted, Mismatch or InvalidField in one line.
    """
    folder = local_folder(source, cache, progress=progress)
    if threads is not None:
        torch.set_num_threads(threads)
    progress(f"load {source.text}", 0, 0)
    with quiet():
        config = read_config(folder, source)
        module = _module(folder, config, dtype, ranks, layers=source.layers)
    tokenizer = FastTokenizer(folder)
    embedding_rows = _embedding_rows(module)
    info = real_model_info(
        source,
        folder,
        tokenizer,
        embedding_rows=embedding_rows,
        longest_context=getattr(config.get_text_config(), "max_position_embeddings", None),
        dtype=dtype,
        cache=cache,
    )
    placed: torch.nn.Module = module
    placed.to(find_device(device)).train(mode=False)
    return LoadedModel(module, info, tokenizer, folder, embedding_rows)


def _embedding_rows(module: PreTrainedModel) -> int:
    weight = module.get_input_embeddings().weight
    assert isinstance(weight, torch.Tensor)
    return int(weight.shape[0])


def layers_of(source: ModelSource, *, cache: Path, progress: Progress = silent) -> int:
    """Return how many layers a model has, fetching and converting it but loading nothing; raises as loading does."""
    folder = local_folder(source, cache, progress=progress)
    with quiet():
        return int(read_config(folder, source).get_text_config().num_hidden_layers)


def read_config(folder: Path, source: ModelSource) -> Any:
    """Return what transformers calls the config, with as many layers as the source says; raises Mismatch."""
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        # transformers raises ValueError, OSError or KeyError for a config it does not know.
        reason = str(error).strip().splitlines()[0]
        raise Mismatch(f"{folder / 'config.json'}: not a config that transformers reads: {reason}") from error
    if source.layers is not None:
        _keep_layers(config.get_text_config(), source)
    return config


def _keep_layers(config: Any, source: ModelSource) -> None:
    held, kept = int(config.num_hidden_layers), source.layers
    if kept is None or kept > held:
        raise InvalidField("model", source.text, f"#layers=K with K from 1 to {held}, the layers of the model")
    config.num_hidden_layers = kept
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:kept]


def _module(folder: Path, config: Any, dtype: Dtype, ranks: int, *, layers: int | None) -> PreTrainedModel:
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            config=config,
            dtype=getattr(torch, dtype.loaded),
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
            distributed_config=DistributedConfig(tp_size=ranks) if ranks > 1 else None,
            output_loading_info=True,
        )
    except Exception as error:
        # As for configs; and safetensors has an error of its own for files that are cut short.
        raise Mismatch(f"model {folder}: cannot be loaded: {type(error).__name__}: {error}") from error
    module: PreTrainedModel
    module, found = loaded
    check_complete(folder, found)
    check_no_more(folder, found, layers=layers)
    return module
