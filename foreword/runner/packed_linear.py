"""Linear layers of a model's own modules on a CPU, with weights in panels."""

from __future__ import annotations

import torch
from torch import nn

from foreword.runner.product import Product


class PackedLinear(nn.Module):
    """y = x W^T + b with W in panels; for inference only, and W cannot be read back.

    Whatever the dtype, sums are made in float32 and a row's bits do not depend on the rows beside it.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features = linear.in_features
        self.out_features = linear.out_features
        self._product = Product([linear])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return y [..., out] of x's dtype for x [..., in]."""
        rows = x.reshape(-1, self.in_features).float().contiguous()
        y = torch.from_numpy(self._product(rows.numpy()))
        return y.reshape(*x.shape[:-1], self.out_features).to(x.dtype)


def pack_linears(module: nn.Module) -> int:
    """Replace every linear layer that lies on the CPU; return how many."""
    names = [name for name, child in module.named_modules() if _can_pack(child)]
    for name in names:
        parent, _, leaf = name.rpartition(".")
        owner = module.get_submodule(parent)
        setattr(owner, leaf, PackedLinear(getattr(owner, leaf)))
    return len(names)


def _can_pack(module: nn.Module) -> bool:
    # A subclass computes something of its own.
    return type(module) is nn.Linear and module.weight.device.type == "cpu" and module.weight.is_floating_point()
