"""Products of rows with panels against float64, and the bits of a row in any company."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from foreword.runner.narrow import narrowed
from foreword.runner.product import Product

COUNTS = [*range(1, 27), 95, 96, 97, 103, 200]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shapes", [[(960, 576)], [(33, 7), (64, 7)], [(97, 40)], [(3, 1)]])
@pytest.mark.parametrize("bias", [True, False])
def test_a_product_is_that_of_its_layers_and_a_row_has_the_same_bits_in_any_company(dtype, shapes, bias):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(length, outputs, bias=bias, dtype=dtype) for outputs, length in shapes]
    product = Product(layers)
    rows = torch.randn(max(COUNTS), shapes[0][1])
    wanted = torch.cat([layer.double()(rows.double()) for layer in layers], dim=1).detach().numpy()
    assert product.out_features == wanted.shape[1]
    alone = product(rows[:1].numpy())
    for count in COUNTS:
        made = product(rows[:count].numpy().copy())
        assert made.flags.c_contiguous
        np.testing.assert_allclose(made, wanted[:count], rtol=1e-5, atol=1e-5)
        assert (made[0] == alone[0]).all()


def test_no_rows_are_no_work():
    assert Product([torch.nn.Linear(8, 20)])(np.empty((0, 8), np.float32)).shape == (0, 20)


@pytest.mark.parametrize("shapes", [[(960, 576)], [(33, 7), (64, 7)], [(97, 41)], [(3, 1)]])
@pytest.mark.parametrize("bias", [True, False])
def test_narrow_weights_give_the_product_of_what_they_are_rounded_to(shapes, bias):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(length, outputs, bias=bias) for outputs, length in shapes]
    product = Product(layers, narrow=True)
    rows = torch.randn(max(COUNTS), shapes[0][1])
    for layer in layers:
        codes, scales = narrowed(layer.weight)
        layer.weight.data = codes.float() * scales
        again, same = narrowed(layer.weight)
        assert (again == codes).all(), "rounding what is rounded changes nothing"
        torch.testing.assert_close(same, scales)
    wanted = torch.cat([layer.double()(rows.double()) for layer in layers], dim=1).detach().numpy()
    for count in COUNTS:
        np.testing.assert_allclose(product(rows[:count].numpy().copy()), wanted[:count], rtol=0, atol=3e-4)


def test_weights_of_nothing_stay_nothing():
    layer = torch.nn.Linear(8, 20, bias=False)
    layer.weight.data[3] = 0.0
    assert (Product([layer], narrow=True)(np.ones((2, 8), np.float32))[:, 3] == 0.0).all()
