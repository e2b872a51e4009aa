"""Laws whose draws from logits are held against the laws themselves."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foreword.compiled.rows import Ids
from foreword.compiled.runs import Floats
from foreword.laws.law import Law
from foreword.laws.parameters import LawParameters
from foreword.laws.pipeline import LawRows, try_target_laws

LAWS = [
    LawParameters(),
    LawParameters(temperature=0.7, top_p=0.95),
    LawParameters(temperature=1.3, top_k=20),
    LawParameters(temperature=0.5, min_p=0.05, top_p=0.8, top_k=40),
]


def rows_of(law: LawParameters, size: int, *, count: int) -> Iterator[tuple[Floats, Ids, Law]]:
    """Yield rows of logits, the ids of their columns, and the law over the ids."""
    rng = np.random.default_rng(size)
    ids = np.sort(rng.choice(49_152, size, replace=False)).astype(np.int32)
    for _ in range(count):
        row = (rng.standard_normal(size) * 3).astype(np.float32)
        found = try_target_laws([LawRows(law, row[None], vocabulary_size=size)])[0]
        assert isinstance(found, list)
        one = found[0]
        yield row, ids, Law(ids if one.ids is None else ids[one.ids], one.probabilities)
