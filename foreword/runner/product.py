"""Matrix products with weights that are laid out once, for few rows as well as many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from foreword.errors import InvalidField
from foreword.runner.kernels.codes import Bits, Lines
from foreword.runner.kernels.common import Floats
from foreword.runner.kernels.narrow import GROUP, Narrow, lines_of
from foreword.runner.kernels.panels import LANES
from foreword.runner.kernels.products import Panels, Weights, Wide, panels_of, product
from foreword.runner.narrow import narrowed

LONGEST = (1 << 31) // (255 * 128)
"""Inputs whose products with lifted weights stay within a sum of 32 bits."""


class Product:
    """y = x W^T + b for float32 x [N, in] on a CPU, of one weight or of several with the same input side by side.

    Weights stay float32 or bfloat16, or have so many `bits`: a pass of few rows takes the time in which memory
    gives them. The bits of a row do not depend on the rows beside it.
    """

    def __init__(self, layers: Sequence[nn.Linear], *, bits: Bits | None = None) -> None:
        self._weights = weights_of([layers], bits)
        self.out_features = self._weights.outputs

    def __call__(self, rows: Floats) -> Floats:
        """Return float32 [N, out], without gaps."""
        out: Floats = product(rows, self._weights, 0)
        return out


def weights_of(products: Sequence[Sequence[nn.Linear]], bits: Bits | None = None) -> Weights:
    """Return the weights of products of one shape, each of one linear layer or of several side by side."""
    weights = [torch.cat([layer.weight.detach() for layer in layers]) for layers in products]
    group = 1 if bits is None else GROUP
    biases = np.stack([_by_panel(torch.cat([_bias(layer) for layer in layers]), group) for layers in products])
    outputs, length = weights[0].shape
    if bits is not None and length > LONGEST:
        raise InvalidField("inputs", length, f"at most {LONGEST} of a product in {bits} bits: its sums have 32")
    if bits is None:
        panels: Any = np.stack([panels_of(_plain(weight)) for weight in weights])
        return Wide(panels, biases, outputs)
    lines: list[Lines] = []
    scales: list[Floats] = []
    for weight in weights:
        rounded, scale = narrowed(weight, bits)
        lines.append(lines_of(rounded.numpy(), bits))
        scales.append(_by_panel(scale, group))
    stacked: Any = np.stack(lines)
    return Narrow(stacked, biases, outputs, np.stack(scales))


def _by_panel(values: torch.Tensor, group: int) -> Floats:
    """Return a value for each output [O] as float32 [O / 16, 16], filled up with zeros to whole groups of panels."""
    filled: Floats = np.zeros((-(-values.numel() // (group * LANES)) * group, LANES), np.float32)
    filled.reshape(-1)[: values.numel()] = values.reshape(-1).float().numpy()
    return filled


def _plain(weight: torch.Tensor) -> Panels:
    if weight.dtype == torch.bfloat16:
        words: Panels = weight.view(torch.uint16).numpy()
        return words
    floats: Panels = weight.float().numpy()
    return floats


def _bias(layer: nn.Linear) -> torch.Tensor:
    return torch.zeros(layer.out_features) if layer.bias is None else layer.bias.detach()
