"""A number has one activation, whatever it comes with and however many threads share the work."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from transformers.activations import ACT2FN

from foreword.runner.activations import PiecewiseActivation, fix_activations
from tests.unit.runner.tiny import config, module


@pytest.fixture
def three_threads() -> Iterator[None]:
    """Shares end at numbers that are no multiple of a vector."""
    usual = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(usual)


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize("name", ["gelu_pytorch_tanh", "silu", "gelu"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_row_has_the_same_bits_alone_and_beside_hundreds(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    activation = PiecewiseActivation(ACT2FN[name])
    x = (3 * torch.randn(1, 401, 104)).to(dtype)
    together = activation(x)
    torch.testing.assert_close(together, ACT2FN[name](x))
    for rows in (1, 2, 3, 301):
        assert torch.equal(activation(x[:, :rows]), together[:, :rows])
    assert torch.equal(activation(x[:, 1:2, :7]), together[:, 1:2, :7])


@pytest.mark.parametrize("family", ["gemma2", "gpt_neox"])
def test_activations_of_modules_are_found(family: str) -> None:
    made = module(config(family))
    assert fix_activations(made) == 3
    assert sum(isinstance(child, PiecewiseActivation) for child in made.modules()) == 3
