"""Weights that are rounded while a step computes with them, so that training sees what is served."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from foreword.runner.kernels.codes import Bits
from foreword.runner.narrow import narrowed


@contextmanager
def rounded(module: nn.Module, bits: Bits | None) -> Iterator[None]:
    """Have a module's matrix products compute with weights of so many bits inside, if any; outside they are as before.

    Gradients go to the weights as if nothing had been rounded (the straight-through estimator, Bengio et al. 2013), so
    that the backward pass belongs inside and the optimizer's step outside.
    """
    if bits is None:
        yield
        return
    layers = [layer for layer in module.modules() if isinstance(layer, nn.Linear)]
    kept = [layer.weight.data for layer in layers]
    try:
        with torch.no_grad():
            for layer in layers:
                codes, scales = narrowed(layer.weight, bits)
                layer.weight.data = codes.to(scales.dtype) * scales
        yield
    finally:
        for layer, weight in zip(layers, kept, strict=True):
            layer.weight.data = weight
