"""Compiled before the first test: that takes long on a busy machine, and a test that is cut off leaves half of it."""

from __future__ import annotations

import pytest

from foreword.acceptance import gather
from foreword.compiled.laws import try_compiled_laws
from foreword.compiled.source import CompiledSource
from foreword.errors import ForewordError
from foreword.laws.pipeline import LawRows
from foreword.protocol.words import Rule
from tests.unit.compiled.blocks import KEYS, LAWS, drawn_block, logits_of, one_hot


@pytest.fixture(scope="package", autouse=True)
def compiled() -> None:
    """Call every loop once: laws that are cut and whole, and evidence of both kinds of blocks under every rule."""
    for seed, parameters in enumerate(LAWS):
        rows = LawRows(parameters, logits_of("peaked", seed, 3, 700), candidates=(1, 2), vocabulary_size=700)
        for draw in (drawn_block, one_hot):
            ids, block = draw(rows, seed)
            (found,) = try_compiled_laws([rows])
            assert not isinstance(found, ForewordError)
            for rule in Rule:
                gather(rule, found, ids, block, keys=KEYS, round=1, base=2, source=CompiledSource())
