"""Linear layers with weights packed once for oneDNN, for float32 on CPUs.

torch packs a float32 weight anew at every call with more than one row: five rows of SmolLM2-135M take 2.5 times as long
as one. Packed once they take 1.3 times as long, which is a third less; one row alone takes a sixth more, since oneDNN's
calls cost more than MKL's (two AVX2 cores). And a row's result does not depend on the rows beside it. The operators are
those that torch's own compiler uses for frozen weights.
"""

from __future__ import annotations

import torch
from torch import nn

_USUAL_ROWS = 64
"""What the packing is chosen for; any number of rows may come, and packing for one row costs the others dearly."""


class PackedLinear(nn.Module):
    """y = x W^T + b with W packed; for inference only, and W cannot be read back."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features = linear.in_features
        self.out_features = linear.out_features
        self._weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), _USUAL_ROWS)
        self._bias = None if linear.bias is None else linear.bias.detach()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return y [..., out] for x [..., in]."""
        # By its overload, for choosing one takes a twentieth of the time of a small layer.
        y: torch.Tensor = torch.ops.mkldnn._linear_pointwise.default(x, self._weight, self._bias, "none", [], "")
        return y


def pack_linears(module: nn.Module) -> int:
    """Replace every float32 linear layer that lies on the CPU; return how many, 0 where torch has no oneDNN."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return 0
    names = [name for name, child in module.named_modules() if _can_pack(child)]
    for name in names:
        parent, _, leaf = name.rpartition(".")
        owner = module.get_submodule(parent)
        setattr(owner, leaf, PackedLinear(getattr(owner, leaf)))
    return len(names)


def _can_pack(module: nn.Module) -> bool:
    # A subclass computes something of its own.
    return type(module) is nn.Linear and module.weight.device.type == "cpu" and module.weight.dtype == torch.float32
