"""All layers of a pass as one compiled loop: no call from Python between two products.

Between two calls from Python lie some 5 to 50 µs, ten of them a layer; a target's pass of one row had 2 ms of that, a
draft's most of its time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from foreword.kernel import kernel
from foreword.runner.kernels.attention import attend, rotate, store
from foreword.runner.kernels.clock import now_ns
from foreword.runner.kernels.common import FLAGS, Doubles, Floats, Integers, Longs
from foreword.runner.kernels.products import product
from foreword.runner.kernels.rowwise import add_and_normalize, gate, normalize_heads

PRODUCTS, ATTENTION, ROWWISE = 0, 1, 2
"""Where time goes: places of `spent`."""


class Layers(NamedTuple):
    """Weights of L layers and of what follows them; products as `kernels.products.product` takes them."""

    before_attention: Floats
    """Weights of norms, float32 [L, C]."""
    projections: Any
    """Queries, keys and values, in the order of a packed row."""
    head_norms: Floats
    """Weights of the norms of query and key heads, float32 [L, 2, D]; D is 0 where the model has none."""
    output: Any
    before_gate: Floats
    gate_and_up: Any
    down: Any
    last_norm: Floats
    """Float32 [C]."""
    head: Any


class Place(NamedTuple):
    """Where rows stand: what `kernels.attention` wants to know of them, and which of them want logits."""

    positions: Integers
    owners: Integers
    tables: Integers
    wanted: Integers


class Kind(NamedTuple):
    """What kind of layers they are."""

    heads: int
    groups: int
    size: int
    epsilon: float
    scales: Doubles
    """Of scores by layer, float64 [L]; likewise the next two."""
    windows: Longs
    softcaps: Doubles
    cosines: Floats
    """Float32 [longest, R / 2]."""
    sines: Floats


@kernel(fastmath=FLAGS, cache=True, nogil=True)
def run_layers(
    stream: Floats, place: Place, layers: Layers, kind: Kind, keys: Floats, values: Floats, spent: Longs
) -> Floats:
    """Run embedded rows float32 [N, C] through all layers and the head; return float32 [K, V] of the wanted rows.

    Keys and values [L, …] get those of the rows. `spent` int64 [3] adds up ns by place.
    """
    addend, normal = np.zeros_like(stream), np.empty_like(stream)
    heads, groups, size = kind.heads, kind.groups, kind.size
    for number in range(len(layers.before_attention)):
        began = now_ns()
        add_and_normalize(stream, addend, layers.before_attention[number], kind.epsilon, normal)
        normed = now_ns()
        packed = product(normal, layers.projections, number)
        projected = now_ns()
        if layers.head_norms.shape[2] > 0:
            normalize_heads(packed, heads, groups, layers.head_norms[number], kind.epsilon)
        rotate(packed, heads + groups, size, kind.cosines, kind.sines, place.positions)
        rotated = now_ns()
        store(packed, heads, place.positions, place.owners, place.tables, keys[number], values[number])
        attended = np.empty((stream.shape[0], heads * size), np.float32)
        attend(
            packed,
            heads,
            place.positions,
            place.owners,
            place.tables,
            keys[number],
            values[number],
            attended,
            kind.scales[number],
            kind.windows[number],
            kind.softcaps[number],
        )
        seen = now_ns()
        addend = product(attended, layers.output, number)
        put_out = now_ns()
        add_and_normalize(stream, addend, layers.before_gate[number], kind.epsilon, normal)
        normed_again = now_ns()
        both = product(normal, layers.gate_and_up, number)
        opened = now_ns()
        gated = np.empty((both.shape[0], both.shape[1] // 2), np.float32)
        gate(both, gated)
        shut = now_ns()
        addend = product(gated, layers.down, number)
        spent[PRODUCTS] += projected - normed + put_out - seen + opened - normed_again + now_ns() - shut
        spent[ATTENTION] += seen - rotated
        spent[ROWWISE] += normed - began + rotated - projected + normed_again - put_out + shut - opened
    began = now_ns()
    stream, addend = stream[place.wanted], addend[place.wanted]
    normal = np.empty_like(stream)
    add_and_normalize(stream, addend, layers.last_norm, kind.epsilon, normal)
    normed = now_ns()
    logits = product(normal, layers.head, 0)
    spent[ROWWISE] += normed - began
    spent[PRODUCTS] += now_ns() - normed
    return logits
