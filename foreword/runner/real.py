"""From a transformers module to a runner: the fastest of the models that compute the same, and proof that it does."""

from __future__ import annotations

import structlog
import torch
from transformers import PreTrainedModel

from foreword.errors import Mismatch
from foreword.runner.budget import CacheBudget
from foreword.runner.deterministic import check_deterministic
from foreword.runner.fused.model import FusedModel, can_fuse
from foreword.runner.kernels.common import use_threads
from foreword.runner.key_values import KeyValues, TorchKeyValues
from foreword.runner.layers import CacheShape
from foreword.runner.memory import available_bytes
from foreword.runner.module_model import ModuleModel
from foreword.runner.paged import PagedRunner
from foreword.runner.paged_attention import look
from foreword.runner.plan import StepModel
from foreword.runner.supported import check_config, check_probe, probe_logits
from foreword.runner.tiles import TiledKeyValues

_log = structlog.stdlib.get_logger(__name__)


def real_runner(
    module: PreTrainedModel,
    *,
    vocabulary_size: int,
    longest_context: int,
    budget: CacheBudget | None = None,
    chunk: int = 512,
    deterministic: bool = False,
) -> PagedRunner:
    """Return a runner; the module belongs to it from then on.

    `deterministic` makes logits a function of the context alone, to the last bit, or raises Mismatch where the
    machine's kernels do not allow it.

    A model whose attention it does not compute is refused with the reason (Mismatch): by its config where that says
    so, else by comparing a few tokens with the module's own forward pass.
    """
    check_config(module)
    wanted = probe_logits(module, vocabulary_size)
    if module.device.type == "cpu":
        use_threads(torch.get_num_threads())

    def runner(model: StepModel) -> PagedRunner:
        made = PagedRunner(model, vocabulary_size=vocabulary_size, longest_context=longest_context, chunk=chunk)
        check_probe(made, wanted, module.config.model_type, module.dtype)
        if deterministic:
            check_deterministic(made)
        return made

    shape, manners = look(module)
    key_values = _key_values(module, shape, budget or CacheBudget())
    if isinstance(key_values, TiledKeyValues) and can_fuse(module):
        try:
            return runner(FusedModel(module, key_values, manners, longest=longest_context, deterministic=deterministic))
        except Mismatch as mismatch:
            _log.warning("not fused", model=module.config.model_type, reason=mismatch.message)
    return runner(ModuleModel(module, key_values, vocabulary_size=vocabulary_size, deterministic=deterministic))


def _key_values(module: PreTrainedModel, shape: CacheShape, budget: CacheBudget) -> KeyValues:
    device = module.device
    if device.type == "cpu" and TiledKeyValues.fits(shape, budget.page_size):
        pages = budget.pages(shape, itemsize=torch.float32.itemsize, free_bytes=available_bytes())
        return TiledKeyValues(shape, pages=pages, page_size=budget.page_size)
    free_bytes = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else available_bytes()
    pages = budget.pages(shape, itemsize=module.dtype.itemsize, free_bytes=free_bytes)
    return TorchKeyValues(shape, pages=pages, page_size=budget.page_size, dtype=module.dtype, device=device)
