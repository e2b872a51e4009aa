"""What a layer does to single rows between matrix products: residual and norm, gate."""

from __future__ import annotations

import numpy as np

from foreword.kernel import kernel
from foreword.runner.kernels.common import FLAGS, Floats, exponentials

_LANES = 16


@kernel(fastmath=FLAGS, cache=True, nogil=True)
def add_and_normalize(stream: Floats, addend: Floats, weight: Floats, epsilon: float, out: Floats) -> None:
    """Add float32 [N, C] to the residual stream in place, and write its RMS norm, times the weight, to `out`.

    Zhang and Sennrich 2019, Root Mean Square Layer Normalization.
    """
    rows, columns = stream.shape
    lanes = np.empty(_LANES, np.float32)
    for n in range(rows):
        lanes[:] = np.float32(0)
        whole = columns // _LANES * _LANES
        for first in range(0, whole, _LANES):
            for j in range(_LANES):
                value = stream[n, first + j] + addend[n, first + j]
                stream[n, first + j] = value
                lanes[j] += value * value
        rest = np.float32(0)
        for c in range(whole, columns):
            value = stream[n, c] + addend[n, c]
            stream[n, c] = value
            rest += value * value
        for j in range(_LANES):
            rest += lanes[j]
        scale = np.float32(1) / np.sqrt(rest / np.float32(columns) + np.float32(epsilon))
        for c in range(columns):
            out[n, c] = stream[n, c] * scale * weight[c]


@kernel(fastmath=FLAGS, cache=True, nogil=True)
def gate(both: Floats, out: Floats) -> None:
    """Write silu(g) · u to `out` [N, C], where `both` [N, 2C] holds g and u side by side (Shazeer 2020, SwiGLU)."""
    rows, columns = out.shape
    powers = np.empty(columns, np.float32)
    bits = np.empty(columns, np.int32)
    for n in range(rows):
        for c in range(columns):
            powers[c] = -abs(both[n, c])
        exponentials(powers, bits)
        for c in range(columns):
            g = both[n, c]
            # 1 / (1 + e^-g), by the exponential of what is not positive
            sigmoid = (np.float32(1) if g >= 0 else powers[c]) / (np.float32(1) + powers[c])
            out[n, c] = g * sigmoid * both[n, columns + c]


@kernel(fastmath=FLAGS, cache=True, nogil=True)
def normalize_heads(rows: Floats, heads: int, groups: int, weights: Floats, epsilon: float) -> None:
    """Normalize every query head and every key head of packed rows [N, …] in place; weights are float32 [2, D]."""
    size = weights.shape[1]
    for n in range(rows.shape[0]):
        for head in range(heads + groups):
            part, weight = rows[n, head * size : (head + 1) * size], weights[0 if head < heads else 1]
            total = np.float32(0)
            for d in range(size):
                total += part[d] * part[d]
            scale = np.float32(1) / np.sqrt(total / np.float32(size) + np.float32(epsilon))
            for d in range(size):
                part[d] = part[d] * scale * weight[d]
