"""What is compiled does not depend on who calls it first."""

from __future__ import annotations

import importlib
import pkgutil

import numpy as np
import pytest
from numba.core.registry import CPUDispatcher

import foreword.compiled
import foreword.runner.fused
import foreword.runner.kernels
from foreword.kernel import kernel


@kernel()
def _separate(a, b, c):
    return a * b + c


@kernel(fastmath={"contract"})
def _caller(a, b, c):
    return _separate(a, b, c)


def test_a_function_keeps_its_own_arithmetic_inside_a_caller_that_may_fuse():
    a = np.float64(1.0 + 2.0**-27)
    product = float(a) * float(a)
    assert _caller(a, a, -product) == 0.0, "rounded after the product"
    assert _separate(a, a, -product) == 0.0


@pytest.mark.parametrize("package", [foreword.compiled, foreword.runner.kernels, foreword.runner.fused])
def test_every_compiled_function_says_how_it_computes(package):
    found = 0
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        for name, one in vars(importlib.import_module(module.name)).items():
            if isinstance(one, CPUDispatcher):
                found += 1
                assert {"fastmath", "error_model"} <= one.targetoptions.keys(), f"{module.name}.{name}"
    assert found
