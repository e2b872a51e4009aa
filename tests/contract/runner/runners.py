"""Every kind of runner, over the same vocabulary; a new one is named here and has to pass all of the suite."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from foreword.errors import InvalidField
from foreword.models.synthetic import SyntheticModel
from foreword.runner.port import Logits, Rows, Runner
from foreword.testing.synthetic import Side, SyntheticRunner
from tests.contract.tiny_llama import tiny_llama

V, LONGEST = 96, 150
TEXT = tuple(int(i) for i in np.random.default_rng(3).integers(0, V, 60))
OTHER = TEXT[::-1]
MODEL = SyntheticModel(vocabulary=V, step_ms=0.0, context=LONGEST)


def target() -> Runner:
    return SyntheticRunner(MODEL, side=Side.TARGET)


def draft() -> Runner:
    return SyntheticRunner(MODEL, side=Side.DRAFT, page_size=7)


def cramped_target() -> Runner:
    return SyntheticRunner(MODEL, side=Side.TARGET, pages=8)


def paged(*, chunk: int = 512, pages: int = 200, fused: bool = True) -> Runner:
    pytest.importorskip("torch")
    from foreword.runner.budget import CacheBudget
    from foreword.runner.real import real_runner

    return real_runner(
        tiny_llama(vocabulary=V, longest=LONGEST, of_its_own=not fused),
        vocabulary_size=V,
        longest_context=LONGEST,
        budget=CacheBudget(16 * pages),
        chunk=chunk,
    )


def paged_in_pieces() -> Runner:
    return paged(chunk=7)


def paged_module() -> Runner:
    return paged(fused=False)


def cramped_paged() -> Runner:
    return paged(pages=8)


RUNNERS: tuple[Callable[[], Runner], ...] = (target, draft, paged, paged_in_pieces, paged_module)
CRAMPED: tuple[Callable[[], Runner], ...] = (cramped_target, cramped_paged)
"""Those that share and have 8 pages of 16 tokens."""


def emptied(runner: Runner) -> Runner:
    """Close what an earlier test has left open; what it has committed stays."""
    for slot in range(8):
        try:
            runner.close(slot)
        except InvalidField:
            continue
    return runner


def salts() -> Iterator[bytes]:
    """Yield salts that no test has used, so that none finds what another has committed."""
    number = 0
    while True:
        number += 1
        yield number.to_bytes(4, "big")


SALTS = salts()


def at_once(runner: Runner, tokens: tuple[int, ...]) -> Logits:
    """Return the logits of a text in a slot of its own, in one call."""
    runner.open(7, salt=next(SALTS))
    (logits,) = runner.forward([Rows(7, tokens, len(tokens))])
    runner.close(7)
    return logits


def assert_close(got: Logits, wanted: Logits) -> None:
    assert got.shape == wanted.shape
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, wanted, atol=1e-4, rtol=0)
