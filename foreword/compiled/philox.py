"""Philox4x64-10 as `foreword.addresses.philox` defines it, compiled: a block is the four numbers of four ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from foreword.addresses.keys import Address
from foreword.addresses.philox import MULTIPLIERS, ROUNDS, U64, WEYL, key_words
from foreword.compiled.runs import Integer
from foreword.kernel import kernel

_M0, _M1 = np.uint64(MULTIPLIERS[0]), np.uint64(MULTIPLIERS[1])
_W0, _W1 = np.uint64(WEYL[0]), np.uint64(WEYL[1])
_ONE = np.uint64(1)
_TWELVE, _HALF, _LOW = np.uint64(12), np.uint64(32), np.uint64(0xFFFFFFFF)
_M0_LOW, _M0_HIGH, _M1_LOW, _M1_HIGH = _M0 & _LOW, _M0 >> _HALF, _M1 & _LOW, _M1 >> _HALF
BLOCKS = 64
"""Blocks that are computed together."""
Block = tuple[Integer, Integer, Integer, Integer]


def place(key: bytes, address: Address) -> npt.NDArray[np.uint64]:
    """Return a key and an address as kernels take them, uint64 [5]."""
    return np.array([*key_words(key), address.position, address.round, address.digest], dtype=np.uint64)


def _product() -> Callable[..., Any]:
    """Return what gives the upper 64 of the 128 bits of a product, as an intrinsic that compiled code calls."""

    @intrinsic
    def upper(context: Any, a: Any, b: Any) -> Any:
        return types.uint64(types.uint64, types.uint64), _upper_half

    return upper


def _upper_half(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    wide = ir.IntType(128)
    product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
    return builder.trunc(builder.lshr(product, wide(64)), ir.IntType(64))


_upper = _product()


@kernel(error_model="numpy")
def block(place: U64, index: Integer) -> Block:
    """Return the numbers 4 · index to 4 · index + 3 of a place."""
    k0, k1 = place[0], place[1]
    a, b, c, d = np.uint64(index) + _ONE, place[2], place[3], place[4]
    for _ in range(ROUNDS):
        upper_a, upper_c = _upper(_M0, a), _upper(_M1, c)
        lower_a, lower_c = _M0 * a, _M1 * c
        a, b, c, d = upper_c ^ b ^ k0, lower_c, upper_a ^ d ^ k1, lower_a
        k0 += _W0
        k1 += _W1
    return a, b, c, d


@kernel(error_model="numpy")
def uniform(number: Integer) -> float:
    """Return the middle of one of 2**52 cells, as `foreword.addresses.philox.uniforms` does."""
    return (np.float64(np.uint64(number) >> _TWELVE) + 0.5) * 2.0**-52


@kernel(error_model="numpy")
def blocks(place: U64, first: Integer, words: U64) -> None:
    """Write the numbers of 64 blocks from `first` on to `words` [4, 64]: number 4 · i + lane is words[lane, i].

    As 64 × 64 → 128 bits by four 32-bit products, which compiles to vectors, it takes a third of the time of `block`.
    """
    a, b, c, d = words[0], words[1], words[2], words[3]
    k0, k1 = place[0], place[1]
    for j in range(BLOCKS):
        a[j] = np.uint64(first + j) + _ONE
        b[j], c[j], d[j] = place[2], place[3], place[4]
    for _ in range(ROUNDS):
        for j in range(BLOCKS):
            high, low = a[j] >> _HALF, a[j] & _LOW
            low_low = low * _M0_LOW
            middle = high * _M0_LOW + (low_low >> _HALF)
            cross = low * _M0_HIGH + (middle & _LOW)
            upper_a, lower_a = (
                high * _M0_HIGH + (middle >> _HALF) + (cross >> _HALF),
                (cross << _HALF) | (low_low & _LOW),
            )
            high, low = c[j] >> _HALF, c[j] & _LOW
            low_low = low * _M1_LOW
            middle = high * _M1_LOW + (low_low >> _HALF)
            cross = low * _M1_HIGH + (middle & _LOW)
            upper_c, lower_c = (
                high * _M1_HIGH + (middle >> _HALF) + (cross >> _HALF),
                (cross << _HALF) | (low_low & _LOW),
            )
            a[j], c[j] = upper_c ^ b[j] ^ k0, upper_a ^ d[j] ^ k1
            b[j], d[j] = lower_c, lower_a
        k0 += _W0
        k1 += _W1


@kernel(cache=True, nogil=True, error_model="numpy")
def numbers(place: U64, count: int) -> U64:
    """Return the first numbers of a place, uint64 [count]."""
    size = 4 * BLOCKS
    out, words = np.empty((count + size - 1) // size * size, np.uint64), np.empty((4, BLOCKS), np.uint64)
    for first in range(0, len(out), size):
        blocks(place, first // 4, words)
        for j in range(size):
            out[first + j] = words[j % 4, j // 4]
    return out[:count]
