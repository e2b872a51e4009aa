"""From a transformers module to a runner: the fastest way that computes what the module computes."""

from __future__ import annotations

import structlog
import torch
from transformers import PreTrainedModel

from foreword.errors import EngineFailure, Mismatch
from foreword.runner.budget import CacheBudget
from foreword.runner.deterministic import check_deterministic
from foreword.runner.kernels.codes import Bits
from foreword.runner.kernels.common import use_threads
from foreword.runner.narrow import narrow
from foreword.runner.paged import PagedRunner
from foreword.runner.paged_attention import look
from foreword.runner.supported import check_config, check_probe, probe_logits
from foreword.runner.ways import WAYS, Subject, slowed_by_pages

_log = structlog.stdlib.get_logger(__name__)


def real_runner(
    module: PreTrainedModel,
    *,
    vocabulary_size: int,
    longest_context: int,
    budget: CacheBudget | None = None,
    chunk: int = 512,
    deterministic: bool = False,
    bits: Bits | None = None,
) -> PagedRunner:
    """Return a runner; the module belongs to it from then on. `chunk` bounds the rows of one pass.

    A model whose attention it does not compute is refused with the reason (Mismatch): by its config where that says
    so, else by comparing a few tokens with the module's own forward pass. `deterministic` makes logits a function of
    the context alone, to the last bit, or raises Mismatch where the machine's kernels do not allow it. `bits` rounds
    the weights of matrix products, and reads them so where the machine's kernels do.
    """
    check_config(module)
    if bits is not None:
        narrow(module, bits)
    if module.device.type == "cpu":
        use_threads(torch.get_num_threads())
    wanted = probe_logits(module, vocabulary_size)
    shape, manners = look(module)
    subject = Subject(
        module,
        shape,
        manners,
        budget or CacheBudget(),
        vocabulary_size,
        longest_context,
        deterministic=deterministic,
        bits=bits,
    )
    if reason := slowed_by_pages(subject):
        _log.warning("the model is run in a slower way", reason=reason)
    for way in WAYS:
        model = way(subject)
        if model is None:
            continue
        runner = PagedRunner(model, vocabulary_size=vocabulary_size, longest_context=longest_context, chunk=chunk)
        try:
            check_probe(runner, wanted, module.config.model_type, module.dtype, narrow=bits is not None)
        except (Mismatch, EngineFailure) as error:  # the device lacks something, or the model has something more
            if way is WAYS[-1]:
                raise
            _log.warning("the model is run in a slower way", unusable=way.__name__, reason=error.message)
            continue
        _log.info("model runs", way=way.__name__, deterministic=deterministic)
        if deterministic:
            check_deterministic(runner)
        return runner
    raise AssertionError("the last way is open to all models")
