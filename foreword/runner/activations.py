"""Activations of a model's own modules on a CPU, with the same bits for a number wherever it stands.

torch computes most of a tensor by vector instructions and what is left over at its end one by one, by another formula
of tanh or of the exponential. What is left over depends on the tensor's size, and so does where each thread's share
ends: with three threads gelu gave some numbers of a row other bits beside 300 rows than alone.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import pad
from transformers.activations import ACT2CLS

_LANES = 64
"""Numbers that vector instructions take at once divide it: 16 of float32 on AVX2, up to 64 of bfloat16 on AVX-512."""
_PIECE = 1 << 14
"""Numbers of a piece; torch shares nothing out to threads that has under 1 << 15."""


class PiecewiseActivation(nn.Module):
    """An activation that is applied to pieces of one kind, by one thread and by vector instructions alone."""

    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.activation = activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the activation of every number of x, in the same shape."""
        count = x.numel()
        flat = pad(x.reshape(-1), (0, -count % _LANES))
        pieces = [self.activation(piece) for piece in torch.split(flat, _PIECE)]
        whole: torch.Tensor = pieces[0] if len(pieces) == 1 else torch.cat(pieces)
        return whole[:count].reshape(x.shape)


def fix_activations(module: nn.Module) -> int:
    """Have every activation of transformers' list work on pieces; return how many there are."""
    kinds = {entry[0] if isinstance(entry, tuple) else entry for entry in ACT2CLS.values()}
    kinds.discard(nn.PReLU)  # it looks at where a number stands
    names = [name for name, child in module.named_modules(remove_duplicate=False) if type(child) in kinds]
    for name in names:
        parent, _, leaf = name.rpartition(".")
        owner = module.get_submodule(parent)
        setattr(owner, leaf, PiecewiseActivation(getattr(owner, leaf)))
    return len(names)
