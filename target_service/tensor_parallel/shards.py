"""From a model that transformers has cut up to one rank's part of it, with sums in a fixed order.

transformers loads the model by its own tensor-parallel plan, so that each rank reads its part of the weights alone. Its
forward pass holds them as DTensors and sums by all-reduce, whose order of additions depends on the size of the batch.
Here the parts become ordinary tensors in ordinary modules, and what has to be summed is summed by `Ranks.total`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel

from foreword.errors import Mismatch
from target_service.tensor_parallel.ranks import Ranks
from target_service.tensor_parallel.sizes import Heads, check_size

_KEY_PROJECTION = re.compile(r"(^|\.)k_proj$")
_WHOLE = ("replicate", "replicated_with_grad_allreduce")
"""Styles of what every rank holds whole."""


class SummedLinear(nn.Module):
    """A linear layer that is cut along its inputs: y = Σ over ranks of x_r W_r^T, plus b."""

    def __init__(self, part: nn.Linear, bias: torch.Tensor | None, ranks: Ranks) -> None:
        super().__init__()
        self.part = part
        self._bias = bias
        self._ranks = ranks

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return y [..., out] for this rank's inputs x [..., in / ranks]."""
        y = self._ranks.total(self.part(x))
        return y if self._bias is None else y + self._bias


class SharedEmbedding(nn.Module):
    """An embedding whose rows are shared out: each rank looks up the ids that it has, the others add zeros."""

    def __init__(self, part: nn.Embedding, first: int, ranks: Ranks) -> None:
        super().__init__()
        self.part = part
        self._first = first
        self._ranks = ranks

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the vectors [..., hidden] of ids [...]."""
        own = ids - self._first
        foreign = (own < 0) | (own >= self.part.num_embeddings)
        vectors: torch.Tensor = self.part(own.masked_fill(foreign, 0))
        return self._ranks.total(vectors.masked_fill(foreign[..., None], 0))


def take_part(module: PreTrainedModel, ranks: Ranks) -> None:
    """Make `module`, loaded by transformers' tensor-parallel plan, this rank's part.

    Its head gives this rank's columns of the logits. Raises InvalidField where the heads cannot be shared out, and
    Mismatch for a plan that this does not carry out.
    """
    config = module.config.get_text_config()
    heads = Heads(
        config.num_attention_heads, getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    )
    check_size(ranks.size, heads)
    plan = dict(module.tp_plan or {})
    _check_plan(plan, module.config.model_type)
    head = module.get_output_embeddings()  # type: ignore[no-untyped-call]
    for name, child in list(module.named_modules()):
        style = plan.get(re.sub(r"\d+", "*", name))
        if style is None or style in _WHOLE:
            continue
        if style == "colwise_gather_output" and child is not head:
            raise _unknown(module.config.model_type, name, style)
        _replace(module, name, _PARTS[style](child, ranks))
    _check_whole(module)


def _check_plan(plan: dict[str, str], model_type: str) -> None:
    """Refuse a plan that does not share out the heads, and styles that are not known here."""
    if not any(_KEY_PROJECTION.search(name) and style == "colwise" for name, style in plan.items()):
        raise Mismatch(
            f"model type {model_type}: got a tensor-parallel plan of transformers without heads of keys shared out, "
            "wanted one with k_proj as colwise (tensor_parallel_size 1 needs no plan)"
        )
    for name, style in plan.items():
        if style not in _PARTS and style not in _WHOLE:
            raise _unknown(model_type, name, style)


def _unknown(model_type: str, name: str, style: str) -> Mismatch:
    wanted = ", ".join(sorted((*_PARTS, *_WHOLE)))
    return Mismatch(
        f"model type {model_type}: got style {style} for {name} in its tensor-parallel plan, wanted {wanted}"
    )


def _columns(child: Any, ranks: Ranks) -> nn.Module:
    """A linear layer cut along its outputs needs nothing from the others."""
    linear: nn.Linear = _plain(child)
    linear.out_features, linear.in_features = linear.weight.shape
    return linear


def _rows(child: Any, ranks: Ranks) -> nn.Module:
    bias = child._parameters.pop("bias", None)
    child.register_parameter("bias", None)
    linear: nn.Linear = _plain(child)
    linear.out_features, linear.in_features = linear.weight.shape
    return SummedLinear(linear, None if bias is None else _local(bias), ranks)


def _vocabulary(child: Any, ranks: Ranks) -> nn.Module:
    total = int(child.weight.shape[0])
    embedding: nn.Embedding = _plain(child)
    embedding.num_embeddings = int(embedding.weight.shape[0])
    embedding.padding_idx = None  # it matters to gradients only, and may be another rank's
    return SharedEmbedding(embedding, min(total, ranks.rank * -(-total // ranks.size)), ranks)


_PARTS: dict[str, Callable[[Any, Ranks], nn.Module]] = {
    "colwise": _columns,
    "colwise_gather_output": _columns,
    "rowwise": _rows,
    "embedding_rowwise": _vocabulary,
}
"""Style of transformers' plan → what becomes of a module of that style."""


def _plain(child: Any) -> Any:
    """Take off the forward pass that transformers put on a module, and hold the part as an ordinary parameter."""
    child.__dict__.pop("forward", None)
    for name, parameter in list(child._parameters.items()):
        if parameter is not None:
            child._parameters[name] = nn.Parameter(_local(parameter), requires_grad=False)
    return child


def _local(parameter: torch.Tensor) -> torch.Tensor:
    held = parameter.to_local() if isinstance(parameter, DTensor) else parameter
    return held.detach()


def _replace(module: nn.Module, name: str, child: nn.Module) -> None:
    parent, _, leaf = name.rpartition(".")
    setattr(module.get_submodule(parent), leaf, child)


def _check_whole(module: PreTrainedModel) -> None:
    for name, parameter in module.named_parameters():
        if isinstance(parameter, DTensor):
            raise Mismatch(f"model type {module.config.model_type}: got {name} shared out by no known style")
