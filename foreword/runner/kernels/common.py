"""What the kernels share: flags that keep the order of additions, and an exponential that compiles to vectors."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from llvmlite import binding
from numba import config, set_num_threads

from foreword.kernel import kernel

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int32]
Doubles = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]

FLAGS = {"contract", "nsz"}
"""Products may be fused into additions; nothing may be added up in another order."""

_LOG2_E = np.float32(1.4426950408889634)
_LN_2 = np.float32(0.6931471805599453)
_LEAST = np.float32(-87.0)
_HALF, _ONE = np.float32(0.5), np.float32(1)
_C2, _C3, _C4 = np.float32(5.0000001201e-1), np.float32(1.6666665459e-1), np.float32(4.1665795894e-2)
_C5, _C6, _C7 = np.float32(8.3334519073e-3), np.float32(1.3981999507e-3), np.float32(1.9875691500e-4)
_BIAS, _MANTISSA = np.int32(127), np.int32(23)


@kernel(fastmath=FLAGS, inline="always")
def exponentials(values: Floats, bits: Integers) -> None:
    """Replace values that are not positive by their exponentials, to about 2 ulp; `bits` is room for as many.

    e^x = 2^n · e^r with |r| ≤ ln 2 / 2, and a polynomial for e^r (Cephes, expf).
    """
    for i in range(len(values)):
        z = max(values[i], _LEAST) * _LOG2_E
        n = np.floor(z + _HALF)
        r = (z - n) * _LN_2
        p = ((((_C7 * r + _C6) * r + _C5) * r + _C4) * r + _C3) * r + _C2
        values[i] = p * r * r + r + _ONE
        bits[i] = (np.int32(n) + _BIAS) << _MANTISSA
    powers = bits.view(np.float32)
    for i in range(len(values)):
        values[i] *= powers[i]


def use_threads(count: int) -> None:
    """Have this thread's kernels run on so many threads, as far as the process was started for them."""
    set_num_threads(min(count, config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]


def has_many_registers() -> bool:
    """Whether this machine has 32 registers of 16 float32 each, as AVX-512 does."""
    return bool(binding.get_host_cpu_features().get("avx512f", False))


def multiplies_fours() -> bool:
    """Whether this machine multiplies four bytes with four and adds them up in one instruction of 512 bits."""
    return bool(binding.get_host_cpu_features().get("avx512vnni", False))


def multiplies_bytes() -> bool:
    """Whether it multiplies bytes with bytes and adds up twos, in 256 bits."""
    return bool(binding.get_host_cpu_features().get("avx2", False))
