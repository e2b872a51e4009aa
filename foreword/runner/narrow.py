"""Weights of 8 or 4 bits: every output of a matrix product has a scale of its own, its weights are whole numbers of it.

It makes a draft two to four times as fast as bfloat16 where memory is what it waits for. A draft may: its law is that
of what it computes, whatever that is. A target may not, for it would serve another model.
"""

from __future__ import annotations

import torch
from torch import nn
from transformers import PreTrainedModel

from foreword.runner.kernels.codes import Bits

_LARGEST: dict[Bits, int] = {8: 127, 4: 7}
_SHARES: dict[Bits, tuple[float, ...]] = {8: (1.0,), 4: (1.0, 0.95, 0.9, 0.875, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6)}
"""Shares of a row's largest weight that the largest code may stand for; with few codes it pays to cut the largest."""


def narrowed(weight: torch.Tensor, bits: Bits = 8) -> tuple[torch.Tensor, torch.Tensor]:
    """Return int8 [O, K] and float32 [O, 1], whose product is next to a weight [O, K], and equal to one made so.

    Of some scales each row has the one with the least squared error.
    """
    weight = weight.detach().float()
    largest = _LARGEST[bits]
    top = weight.abs().amax(dim=1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny) / largest
    best, codes = top, _rounded(weight, top, bits)
    least = _error(weight, codes, best)
    for share in _SHARES[bits][1:]:
        other = _rounded(weight, share * top, bits)
        error = _error(weight, other, share * top)
        better = error < least
        best, codes = torch.where(better, share * top, best), torch.where(better, other, codes)
        least = torch.minimum(least, error)
    return codes.to(torch.int8), best


def _rounded(weight: torch.Tensor, scales: torch.Tensor, bits: Bits) -> torch.Tensor:
    return torch.round(weight / scales).clamp(-(1 << (bits - 1)), _LARGEST[bits])


def _error(weight: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    return (codes * scales - weight).square().sum(dim=1, keepdim=True)


@torch.no_grad()
def narrow(module: PreTrainedModel, bits: Bits = 8) -> None:
    """Round the weights of all products in place, so that any way to run the module computes the same.

    The head has 8 bits at least: its rows say which token is the likeliest, often by little.
    """
    head = module.get_output_embeddings()  # type: ignore[no-untyped-call]
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            codes, scales = narrowed(layer.weight, 8 if layer is head else bits)
            layer.weight.copy_(codes.float() * scales)
