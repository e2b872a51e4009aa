"""Products of rows with panels against float64, and the bits of a row in any company."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from foreword.errors import InvalidField
from foreword.runner.narrow import narrowed
from foreword.runner.product import LONGEST, Product

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


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("shapes", [[(960, 576)], [(33, 7), (64, 7)], [(97, 41)], [(3, 1)]])
@pytest.mark.parametrize("bias", [True, False])
def test_narrow_products_are_whole_numbers_times_scales_in_any_company(shapes, bits, bias):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(length, outputs, bias=bias) for outputs, length in shapes]
    product = Product(layers, bits=bits)
    rows = torch.randn(max(COUNTS), shapes[0][1])
    top = rows.abs().amax(dim=1, keepdim=True)
    wanted = []
    for layer in layers:
        codes, scales = narrowed(layer.weight, bits)
        layer.weight.data = codes.float() * scales
        again, same = narrowed(layer.weight, bits)
        assert (again == codes).all(), "rounding what is rounded changes nothing"
        torch.testing.assert_close(same, scales)
        whole = torch.round(rows * (127.0 / top)).double() @ codes.double().T
        wanted.append(whole * (top.double() / 127) * scales.double().T + (layer.bias.double() if bias else 0.0))
    wanted = torch.cat(wanted, dim=1).detach().numpy()
    alone = product(rows[:1].numpy())
    for count in COUNTS:
        made = product(rows[:count].numpy().copy())
        np.testing.assert_allclose(made, wanted[:count], rtol=1e-5, atol=1e-5)
        assert (made[0] == alone[0]).all()


@pytest.mark.parametrize(("bits", "lacking"), [(8, "fours"), (4, "fours"), (4, "fours bytes")])
def test_without_instructions_for_bytes_the_sums_are_the_same(tmp_path, bits, lacking):
    code = f"""
import numpy as np, torch
from foreword.runner.kernels import common
for one in {lacking.split()}:
    assert hasattr(common, "multiplies_" + one)
    setattr(common, "multiplies_" + one, lambda: False)
from foreword.runner.product import LONGEST, Product
torch.manual_seed(0)
made = Product([torch.nn.Linear(41, 97)], bits={bits})(torch.randn(13, 41).numpy())
print(made.tobytes().hex())
"""
    apart = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}  # what it compiles is for no other process
    made = subprocess.run([sys.executable, "-c", code], env=apart, capture_output=True, text=True, check=True)
    torch.manual_seed(0)
    layer = torch.nn.Linear(41, 97)
    assert Product([layer], bits=bits)(torch.randn(13, 41).numpy()).tobytes().hex() == made.stdout.strip()


@pytest.mark.parametrize("bits", [8, 4])
def test_a_row_that_is_not_finite_spoils_itself_alone(bits):
    rows = np.ones((3, 8), np.float32)
    rows[1, 2] = np.inf
    made = Product([torch.nn.Linear(8, 20)], bits=bits)(rows)
    assert np.isfinite(made[[0, 2]]).all()
    assert np.isnan(made[1]).all()


def test_four_bits_cost_less_error_than_the_largest_weight_would_make_them():
    torch.manual_seed(0)
    weight = torch.randn(64, 576)
    codes, scales = narrowed(weight, 4)
    plain = weight.abs().amax(dim=1, keepdim=True) / 7
    error = (codes * scales - weight).square().sum(dim=1)
    assert (error <= (torch.round(weight / plain) * plain - weight).square().sum(dim=1)).all()
    assert error.sum() < 0.7 * (torch.round(weight / plain) * plain - weight).square().sum()


def test_products_that_could_leave_32_bits_are_refused():
    with pytest.raises(
        InvalidField, match=rf"inputs: got {LONGEST + 1}, wanted at most {LONGEST} of a product in 8 bits"
    ):
        Product([torch.nn.Linear(LONGEST + 1, 1)], bits=8)
    rows = np.full((1, LONGEST), 3.0, np.float32)
    layer = torch.nn.Linear(LONGEST, 1, bias=False)
    layer.weight.data[:] = 2.0
    np.testing.assert_allclose(Product([layer], bits=8)(rows), [[6.0 * LONGEST]], rtol=1e-6)


def test_weights_of_nothing_stay_nothing():
    layer = torch.nn.Linear(8, 20, bias=False)
    layer.weight.data[3] = 0.0
    for bits in (8, 4):
        assert (Product([layer], bits=bits)(np.ones((2, 8), np.float32))[:, 3] == 0.0).all()
