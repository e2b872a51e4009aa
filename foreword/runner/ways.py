"""The ways to run a model, the fastest first; which of them a model takes is settled by what they compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from foreword.runner.budget import CacheBudget
from foreword.runner.fused.model import FusedModel, can_fuse
from foreword.runner.kernels.attention import TILE
from foreword.runner.kernels.codes import Bits
from foreword.runner.key_values import KeyValues, TorchKeyValues
from foreword.runner.layers import CacheShape, Manner
from foreword.runner.memory import available_bytes
from foreword.runner.module_model import ModuleModel
from foreword.runner.plan import StepModel
from foreword.runner.tiles import TiledKeyValues
from foreword.runner.varlen import VarlenKeyValues


@dataclass(frozen=True, slots=True)
class Subject:
    """A model that is to run, and how."""

    module: PreTrainedModel
    shape: CacheShape
    manners: Sequence[Manner]
    budget: CacheBudget
    vocabulary_size: int
    longest_context: int
    deterministic: bool
    bits: Bits | None = None
    """What products have their weights in; where they cannot, the module's own are computed with, which are rounded."""

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return self.module.device

    @property
    def dtype(self) -> torch.dtype:
        """Format of its weights."""
        return self.module.dtype


Way = Callable[[Subject], StepModel | None]


def fused(subject: Subject) -> StepModel | None:
    """On a CPU: whole layers of the Llama kind, compiled."""
    key_values = _tiles(subject)
    if key_values is None or not can_fuse(subject.module):
        return None
    longest = min(subject.longest_context, key_values.pages * key_values.page_size)
    return FusedModel(subject.module, key_values, subject.manners, longest=longest, bits=subject.bits)


def with_tiles(subject: Subject) -> StepModel | None:
    """On a CPU: the model's own modules with compiled attention."""
    key_values = _tiles(subject)
    return None if key_values is None else _modules(subject, key_values)


def with_block_tables(subject: Subject) -> StepModel | None:
    """On a GPU: the model's own modules with flash attention over pages."""
    if not VarlenKeyValues.fits(subject.dtype, subject.device, subject.manners):
        return None
    pages = _pages(subject, subject.dtype.itemsize)
    key_values = VarlenKeyValues(
        subject.shape,
        pages=pages,
        page_size=subject.budget.page_size,
        dtype=subject.dtype,
        device=subject.device,
        deterministic=subject.deterministic,
    )
    return _modules(subject, key_values)


def with_torch(subject: Subject) -> StepModel:
    """Anywhere: the model's own modules, one session's attention after the other."""
    pages = _pages(subject, subject.dtype.itemsize)
    key_values = TorchKeyValues(
        subject.shape,
        pages=pages,
        page_size=subject.budget.page_size,
        dtype=subject.dtype,
        device=subject.device,
    )
    return _modules(subject, key_values)


WAYS: tuple[Way, ...] = (fused, with_tiles, with_block_tables, with_torch)


def slowed_by_pages(subject: Subject) -> str:
    """Return why compiled attention is out of the question if the size of a page is all that bars it, else nothing."""
    size = subject.budget.page_size
    fits = TiledKeyValues.fits
    if subject.device.type != "cpu" or fits(subject.shape, size) or not fits(subject.shape, TILE):
        return ""
    return f"page_size: {size} is not a multiple of {TILE}, which compiled attention wants"


def _modules(subject: Subject, key_values: KeyValues) -> ModuleModel:
    return ModuleModel(
        subject.module,
        key_values,
        subject.manners,
        vocabulary_size=subject.vocabulary_size,
        deterministic=subject.deterministic,
    )


def _tiles(subject: Subject) -> TiledKeyValues | None:
    size = subject.budget.page_size
    if subject.device.type != "cpu" or not TiledKeyValues.fits(subject.shape, size):
        return None
    return TiledKeyValues(subject.shape, pages=_pages(subject, torch.float32.itemsize), page_size=size)


def _pages(subject: Subject, itemsize: int) -> int:
    on_gpu = subject.device.type == "cuda"
    free_bytes = torch.cuda.mem_get_info(subject.device)[0] if on_gpu else available_bytes()
    return subject.budget.pages(subject.shape, itemsize=itemsize, free_bytes=free_bytes)
