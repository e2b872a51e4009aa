"""Matrix products with weights that are laid out once, for few rows as well as many."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from foreword.runner.kernels.common import Floats
from foreword.runner.kernels.panels import LANES
from foreword.runner.kernels.products import Panels, multiply, panels_of
from foreword.runner.narrow import narrowed


class Product:
    """y = x W^T + b for float32 x [N, in] on a CPU, of one weight or of several with the same input side by side.

    Weights stay float32 or bfloat16, or become int8 if `narrow`, and are widened as they are read: a pass of few rows
    takes the time in which memory gives them. The bits of a row do not depend on the rows beside it.
    """

    def __init__(self, layers: Sequence[nn.Linear], *, narrow: bool = False) -> None:
        weight = torch.cat([layer.weight.detach() for layer in layers])
        self.out_features = int(weight.shape[0])
        scales = torch.ones(self.out_features)
        if narrow:
            weight, scales = narrowed(weight)
        self._panels = panels_of(_plain(weight))
        self._scales = self._by_panel(scales)
        self._biases = self._by_panel(torch.cat([_bias(layer) for layer in layers]))

    def _by_panel(self, values: torch.Tensor) -> Floats:
        filled: Floats = np.zeros((len(self._panels), LANES), np.float32)
        filled.reshape(-1)[: self.out_features] = values.reshape(-1).float().numpy()
        return filled

    def __call__(self, rows: Floats) -> Floats:
        """Return float32 [N, out], without gaps."""
        out = np.empty((len(rows), self._biases.size), np.float32)
        multiply(rows, self._panels, self._scales, self._biases, out)
        return out if out.shape[1] == self.out_features else np.ascontiguousarray(out[:, : self.out_features])


def _plain(weight: torch.Tensor) -> Panels:
    if weight.dtype == torch.bfloat16:
        words: Panels = weight.view(torch.uint16).numpy()
        return words
    if weight.dtype == torch.int8:
        codes: Panels = weight.numpy()
        return codes
    floats: Panels = weight.float().numpy()
    return floats


def _bias(layer: nn.Linear) -> torch.Tensor:
    return torch.zeros(layer.out_features) if layer.bias is None else layer.bias.detach()
