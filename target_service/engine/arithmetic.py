"""How laws are computed and drawn from: by numpy, the reference, or by compiled loops where rows are large."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from foreword.acceptance import gather
from foreword.acceptance.source import PhiloxSource, Source
from foreword.errors import ForewordError
from foreword.laws.law import TargetLaw
from foreword.laws.parameters import LawParameters
from foreword.laws.pipeline import LawRows, try_target_laws
from foreword.protocol.messages import OneHot, TargetKeys
from foreword.protocol.words import Rule

SMALL = 1024
"""Ids under which numpy takes as long as the loops do, and nothing has to be compiled."""
_KEYS = TargetKeys(bytes(16), bytes(16), bytes(16))
_LAWS = (LawParameters(), LawParameters(top_p=0.9))


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Makes laws of the rows of a step, and draws from them: the two belong together."""

    laws: Callable[[Sequence[LawRows]], Sequence[Sequence[TargetLaw] | ForewordError]]
    source: Source


REFERENCE = Arithmetic(try_target_laws, PhiloxSource())


def arithmetic_for(vocabulary_size: int) -> Arithmetic:
    """Return what computes laws over so many ids, ready: what there is to compile is compiled, or read from the cache.

    Compiled loops come with what loads real models; where that is not installed, numpy does it.
    """
    if vocabulary_size < SMALL or find_spec("numba") is None:
        return REFERENCE
    from foreword.compiled.laws import try_compiled_laws
    from foreword.compiled.source import CompiledSource

    compiled = Arithmetic(try_compiled_laws, CompiledSource())
    _warm_up(compiled, vocabulary_size)
    return compiled


def _warm_up(arithmetic: Arithmetic, vocabulary_size: int) -> None:
    """Have every loop run once, so that no request waits for a compiler."""
    ids = (0, 0)  # what equal logits draw at these keys is something else: residuals are drawn, too
    logits = np.zeros((len(ids) + 1, vocabulary_size), dtype=np.float32)
    for parameters in _LAWS:
        for rows in (logits, logits[:1]):
            candidates = ids[: len(rows) - 1]
            (laws,) = arithmetic.laws([LawRows(parameters, rows, candidates=candidates)])
            if isinstance(laws, ForewordError):
                raise laws
            _ = laws[0].probabilities
            for rule in Rule:
                gather(rule, laws, candidates, OneHot(), keys=_KEYS, round=1, base=0, source=arithmetic.source)
