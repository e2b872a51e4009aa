"""Logits that are a function of the context alone, to the last bit: how that is made, and how it is checked.

Matrix kernels are chosen by the number of rows, and add up in an order of their own. Where a model's own linear layers
run, they therefore run on one number of rows always. He et al. 2025, Defeating Nondeterminism in LLM Inference.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn
from torch.nn.functional import linear, pad

from foreword.errors import Mismatch
from foreword.protocol.messages import Tokens
from foreword.runner.checks import check_cache
from foreword.runner.port import Logits, Rows, Runner

FIXED_ROWS = 64
"""Rows of every matrix product where the number is fixed; fewer are filled up, more are cut."""
_LENGTH = 40
"""Tokens of the text that is scored in several ways."""
_CROWD = 260
"""Tokens of another text in the largest pass: enough for torch to share out what it does between products."""


class FixedRowsLinear(nn.Module):
    """y = x W^T + b, always with the same number of rows at once; for inference only."""

    def __init__(self, layer: nn.Linear, rows: int = FIXED_ROWS) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias
        self._rows = rows

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return y [..., out] for x [..., in]."""
        flat = x.reshape(-1, x.shape[-1])
        filled = pad(flat, (0, 0, 0, -len(flat) % self._rows))
        pieces = [linear(piece, self.weight, self.bias) for piece in torch.split(filled, self._rows)]
        return torch.cat(pieces)[: len(flat)].reshape(*x.shape[:-1], len(self.weight))


def fix_rows(module: nn.Module) -> int:
    """Have every linear layer run on a fixed number of rows; return how many there are."""
    names = [name for name, child in module.named_modules() if type(child) is nn.Linear]
    for name in names:
        parent, _, leaf = name.rpartition(".")
        owner = module.get_submodule(parent)
        setattr(owner, leaf, FixedRowsLinear(getattr(owner, leaf)))
    return len(names)


def check_deterministic(runner: Runner) -> None:
    """Raise Mismatch unless a text gets the same bits in blocks of any size, in company, and on adopted pages.

    Kernels differ between machines: what was measured on one is checked on the other, whenever a model is loaded.
    """
    check_cache(runner.memory, _LENGTH)
    random = np.random.default_rng(11)
    text, other = (tuple(int(t) for t in random.integers(0, runner.vocabulary_size, _LENGTH)) for _ in range(2))
    slots = [0, 1]
    salt = b"deterministic?"
    try:
        for slot in slots:
            runner.open(slot, salt=salt)
        wanted = _score(runner, text, [_LENGTH])
        found = {
            "one by one": _score(runner, text, [1] * _LENGTH),
            "in blocks": _score(runner, text, [2, 3, 5, 8, 13, 9]),
            "in company": _score(runner, text, [1, 4, 9, 26], company=other),
            "in a crowd": _score_in_a_crowd(runner, text, crowd=(other * _CROWD)[:_CROWD]),
        }
        runner.commit(0, text)
        runner.close(1)
        runner.open(1, salt=salt)
        held = runner.adopt(1, text)
        (rest,) = runner.forward([Rows(1, text[held:], _LENGTH - held)])
        found["on adopted pages"] = np.concatenate([wanted[:held], rest])
    finally:
        for slot in slots:
            runner.close(slot)
    for how, logits in found.items():
        if not np.array_equal(logits, wanted):
            rows = int((logits != wanted).any(axis=1).sum())
            raise Mismatch(
                f"deterministic: {rows} of {_LENGTH} rows scored {how} have other bits than in one pass, wanted the "
                f"same; the kernels of this machine or dtype depend on the shape of a batch"
            )


def _score(runner: Runner, text: Sequence[int], sizes: Sequence[int], *, company: Sequence[int] = ()) -> Logits:
    """Return the logits of a text in slot 0 that comes in blocks of these sizes, beside another one if given."""
    runner.truncate(0, 0)
    runner.truncate(1, 0)
    pieces, first = [], 0
    for number, size in enumerate(sizes):
        batch = [Rows(0, tuple(text[first : first + size]), size)]
        if company:
            batch.insert(number % 2, Rows(1, tuple(company[3 * number : 3 * number + 3]), 1))
        for rows, logits in zip(batch, runner.forward(batch), strict=True):
            if rows.slot == 0:
                pieces.append(logits)
        first += size
    return np.concatenate(pieces)


def _score_in_a_crowd(runner: Runner, text: Tokens, *, crowd: Tokens) -> Logits:
    """Return the logits of a text in slot 0 that comes in one pass with as much of another as there is room for."""
    runner.truncate(0, 0)
    runner.truncate(1, 0)
    memory = runner.memory
    room = min(runner.longest_context, (memory.free - runner.pages_wanted(0, len(text))) * memory.page_size)
    return runner.forward([Rows(1, crowd[:room], 0), Rows(0, text, len(text))])[1]
