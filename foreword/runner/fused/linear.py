"""Matrix products with weights that are laid out once for few rows on a CPU."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn.functional import linear

_USUAL_ROWS = 64
"""What oneDNN's layout is chosen for; any number of rows may come, and a layout for one row costs the others dearly."""


class FewRows:
    """y = x W^T + b for float32 x [N, in] on a CPU, of one weight or of several with the same input side by side.

    torch lays a float32 weight out anew at every call with more than one row; laid out once, five rows cost 1.3 times
    as much as one and not 2.5 times, and the bits of a row do not depend on the rows beside it. A bfloat16 weight is
    widened for that, exactly. Its product with a single row is limited by memory, so that there it is read as it is,
    half as long, and the row is rounded to bfloat16 as the model's own layer would do. Both copies are kept.
    """

    def __init__(self, layers: Sequence[nn.Linear], *, one_way: bool = False) -> None:
        """Join `layers`; `one_way` has one row computed as several are, so that its bits are the same."""
        weight = torch.cat([layer.weight.detach() for layer in layers])
        self.out_features = int(weight.shape[0])
        self._narrow = weight if weight.dtype == torch.bfloat16 and not one_way else None
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.float(), _USUAL_ROWS)
        biases = [_bias(layer) for layer in layers]
        self._bias = torch.cat(biases).float() if any(layer.bias is not None for layer in layers) else None
        self._narrow_bias = None if self._bias is None else self._bias.to(torch.bfloat16)

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """Return float32 [N, out]."""
        if self._narrow is not None and rows.shape[0] == 1:
            return linear(rows.to(torch.bfloat16), self._narrow, self._narrow_bias).float()
        # By its overload, for choosing one takes a twentieth of the time of a small layer.
        out: torch.Tensor = torch.ops.mkldnn._linear_pointwise.default(rows, self._packed, self._bias, "none", [], "")
        return out


def _bias(layer: nn.Linear) -> torch.Tensor:
    return layer.weight.new_zeros(layer.out_features) if layer.bias is None else layer.bias.detach()
