"""Packed linear layers compute what they replace, and the same bits for a row in any company."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from foreword.runner.packed_linear import PackedLinear, pack_linears


class _Doubled(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(x)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2), (torch.float16, 2e-3)])
@torch.inference_mode()
def test_values(bias, dtype, tolerance):
    torch.manual_seed(0)
    linear = nn.Linear(48, 33, bias=bias, dtype=dtype)
    for rows in (1, 2, 5, 40):
        x = torch.randn(2, 48, rows, dtype=dtype).transpose(1, 2)
        y = PackedLinear(linear)(x)
        assert (y.dtype, y.shape) == (dtype, (2, rows, 33))
        torch.testing.assert_close(y, linear(x), atol=tolerance, rtol=0)


@torch.inference_mode()
def test_a_row_has_the_same_bits_in_any_company():
    torch.manual_seed(0)
    packed = PackedLinear(nn.Linear(576, 192))
    x = torch.randn(64, 576)
    together = packed(x)
    for rows in (1, 2, 3, 5, 8, 17):
        pieces = torch.cat([packed(piece) for piece in x.split(rows)])
        assert torch.equal(pieces, together)


@torch.inference_mode()
def test_only_plain_layers_are_replaced():
    model = nn.Sequential(
        nn.Linear(4, 4), nn.ModuleDict({"inner": nn.Linear(4, 4)}), _Doubled(4, 4), nn.Linear(4, 4, device="meta")
    )
    assert pack_linears(model) == 2
    kinds = [type(model[0]), type(model[1]["inner"]), type(model[2]), type(model[3])]
    assert kinds == [PackedLinear, PackedLinear, _Doubled, nn.Linear]
