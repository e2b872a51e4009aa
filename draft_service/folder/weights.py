"""The weights of a distilled draft: matrices as int8 with a scale for each row, everything else in float32."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from draft_service.drafters.vocabulary import Ids
from draft_service.folder.card import WEIGHTS, DraftCard
from foreword.errors import Corrupted, Mismatch
from foreword.models.checksum import sha256_of
from foreword.models.weights_file import write_whole
from foreword.runner.narrow import narrowed

_IDS = "vocabulary.ids"
_SCALES = "/scales"

Tensors = dict[str, torch.Tensor]


def write_weights(folder: Path, weights: Mapping[str, torch.Tensor], ids: Ids) -> str:
    """Write weights by name and the ids of the head; return the SHA-256 of the file, which appears whole."""
    tensors: Tensors = {_IDS: torch.from_numpy(np.ascontiguousarray(ids, np.int32))}
    for name, weight in weights.items():
        if weight.ndim == 2:
            tensors[name], tensors[name + _SCALES] = narrowed(weight)
        else:
            tensors[name] = weight.detach().float()
    held = {name: tensor.contiguous().cpu() for name, tensor in tensors.items()}
    write_whole(folder / WEIGHTS, lambda partial: save_file(held, partial))
    return sha256_of(folder / WEIGHTS)


def read_weights(folder: Path, card: DraftCard) -> tuple[Tensors, Ids]:
    """Return float32 weights by name and int32 ids; raise Corrupted for a file that is not the one of the card."""
    path = folder / WEIGHTS
    if not path.is_file():
        raise Corrupted(f"draft {folder}: no {WEIGHTS}, wanted the file of sha256 {card.weights_digest}")
    seen = sha256_of(path)
    if seen != card.weights_digest:
        raise Corrupted(
            f"{path}: got {path.stat().st_size} bytes with sha256 {seen}, wanted sha256 {card.weights_digest}: "
            "the file was cut short or changed; copy the draft again"
        )
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a mapping
    except SafetensorError as error:
        raise Corrupted(f"{path}: not a safetensors file: {error}") from error
    if _IDS not in tensors:
        raise Corrupted(f"{path}: no tensor {_IDS}, wanted the ids of the draft's head")
    ids: Ids = tensors.pop(_IDS).numpy()
    scales = {name: tensors.pop(name) for name in list(tensors) if name.endswith(_SCALES)}
    return {name: _widened(name, weight, scales) for name, weight in tensors.items()}, ids


def fill(parameters: Mapping[str, torch.nn.Parameter], weights: Tensors, where: str) -> None:
    """Copy weights into parameters of the same names and shapes; raise Mismatch where they are not the same."""
    missing, strange = sorted(parameters.keys() - weights.keys()), sorted(weights.keys() - parameters.keys())
    if missing or strange:
        raise Mismatch(f"{where}: got tensors {strange or 'none'} too many and {missing or 'none'} too few")
    for name, parameter in parameters.items():
        weight = weights[name]
        if weight.shape != parameter.shape:
            raise Mismatch(f"{where}: {name}: got shape {list(weight.shape)}, wanted {list(parameter.shape)}")
        parameter.data.copy_(weight)


def _widened(name: str, weight: torch.Tensor, scales: Tensors) -> torch.Tensor:
    scale = scales.get(name + _SCALES)
    return weight.float() if scale is None else weight.float() * scale
