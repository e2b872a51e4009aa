"""Rows of logits at the edges, and blocks drawn from drafts' laws that are near to them."""

from __future__ import annotations

import numpy as np

from foreword.acceptance.source import PhiloxSource
from foreword.compiled.laws import try_compiled_laws
from foreword.compiled.source import CompiledSource
from foreword.laws.counts import sample, to_counts
from foreword.laws.parameters import LawParameters
from foreword.laws.pipeline import LawRows, try_target_laws
from foreword.protocol.messages import OneHot, SparseCounts, TargetKeys

KEYS = TargetKeys(b"m" * 16, b"e" * 16, b"c" * 16)
REFERENCE, COMPILED = (try_target_laws, PhiloxSource()), (try_compiled_laws, CompiledSource())

ROWS = {
    "peaked": lambda rng, v: rng.standard_normal(v) * 4,
    "sharp": lambda rng, v: rng.standard_normal(v) * 12,
    "flat": lambda rng, v: rng.standard_normal(v) * 0.01,
    "equal": lambda rng, v: np.zeros(v),
    "coarse": lambda rng, v: rng.integers(-6, 6, v) / 2,
    "narrow": lambda rng, v: ((rng.standard_normal(v) * 4).astype(np.float32).view(np.uint32) & 0xFFFF0000).view("f4"),
    "two levels": lambda rng, v: (rng.random(v) < 0.3) * 1.0,
    "two zeros": lambda rng, v: np.where(rng.random(v) < 0.5, -0.0, 0.0),
    "masked": lambda rng, v: np.where(rng.random(v) < 0.99, -np.inf, rng.standard_normal(v)),
    "one left": lambda rng, v: np.where(np.arange(v) == v // 2, -3.0, -np.inf),
    "one spike": lambda rng, v: np.where(np.arange(v) == 17, 50.0, rng.standard_normal(v)),
    "far": lambda rng, v: rng.standard_normal(v) * 300,
    "huge": lambda rng, v: rng.standard_normal(v) * 1e37,
}
LAWS = [
    LawParameters(),
    LawParameters(temperature=0.7),
    LawParameters(temperature=100.0),
    LawParameters(temperature=1e-6),
    LawParameters(temperature=1e-300),
    LawParameters(top_p=0.95, temperature=0.7),
    LawParameters(top_p=0.3),
    LawParameters(top_p=0.9999, temperature=1.5),
    LawParameters(top_p=1e-9),
    LawParameters(top_k=1),
    LawParameters(top_k=50, temperature=0.8),
    LawParameters(top_k=10**6),
    LawParameters(top_k=400, top_p=0.9),
    LawParameters(min_p=0.05),
    LawParameters(min_p=1.0),
    LawParameters(min_p=0.02, top_k=300, top_p=0.97, temperature=0.8),
    LawParameters(
        temperature=0.9,
        repetition_penalty=1.3,
        presence_penalty=0.4,
        frequency_penalty=0.2,
        bias=((3, 2.5), (5, -100.0)),
        banned_ids=(1, 7),
        stop_ids=(2,),
        min_tokens=4,
        top_k=200,
        top_p=0.9,
    ),
]
SIZES = [9, 64, 700, 5000]


def logits_of(name: str, seed: int, rows: int, size: int) -> np.ndarray:
    """Return float32 [rows, size]."""
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore"):
        return np.stack([ROWS[name](rng, size) for _ in range(rows)]).astype(np.float32)


def drawn_block(rows: LawRows, seed: int, *, cap: int = 40) -> tuple[tuple[int, ...], tuple[SparseCounts, ...]]:
    """Return candidates and the laws that they were drawn from: those of the target, disturbed."""
    rng = np.random.default_rng(seed)
    ids, counts = [], []
    for logits in rows.logits[:-1, : rows.width]:
        noisy = (np.nan_to_num(logits, neginf=-60.0, posinf=0.0) + rng.standard_normal(rows.width)).clip(-1e30, 1e30)
        parameters = LawParameters(temperature=1.0)
        ((law,),) = try_target_laws([LawRows(parameters, noisy[None].astype(np.float32))])
        counts.append(to_counts(law, cap=cap))
        ids.append(sample(counts[-1], int(rng.integers(1 << 63)) * 2))
    return tuple(ids), tuple(counts)


def one_hot(rows: LawRows, seed: int) -> tuple[tuple[int, ...], OneHot]:
    """Return candidates of a lookup: now and then the likeliest."""
    rng = np.random.default_rng(seed)
    best = rows.logits[:-1, : rows.width].argmax(axis=1)
    return tuple(int(b) if rng.random() < 0.7 else int(rng.integers(rows.width)) for b in best), OneHot()
