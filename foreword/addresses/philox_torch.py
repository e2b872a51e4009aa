"""The same Philox4x64-10 in torch integer arithmetic, for CPU and CUDA tensors: bit for bit what `philox` gives.

torch has no unsigned 64-bit arithmetic, so words are int64 whose bits are meant unsigned: products and sums wrap alike,
and shifts are masked. Only integers and `uniforms` are the same everywhere; logarithms are not.
"""

from __future__ import annotations

import torch

from foreword.addresses.keys import Address
from foreword.addresses.philox import MULTIPLIERS, ROUNDS, WEYL, key_words

_LOW = 0xFFFFFFFF


def integers_at(key: bytes, address: Address, indices: torch.Tensor) -> torch.Tensor:
    """Return the numbers with the given int64 indices at an address: int64 of the same shape and device.

    View them as uint64 to compare with `foreword.addresses.philox`.
    """
    k0, k1 = (_signed(word) for word in key_words(key))
    c0 = indices // 4 + 1
    c1, c2, c3 = (torch.full_like(c0, _signed(word)) for word in (address.position, address.round, address.digest))
    for _ in range(ROUNDS):
        high0, low0 = _multiply(c0, MULTIPLIERS[0])
        high1, low1 = _multiply(c2, MULTIPLIERS[1])
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = _signed(k0 + WEYL[0]), _signed(k1 + WEYL[1])
    lane = indices % 4
    return torch.where(lane < 2, torch.where(lane == 0, c0, c1), torch.where(lane == 2, c2, c3))


def uniforms(numbers: torch.Tensor) -> torch.Tensor:
    """Map numbers to float64 strictly between 0 and 1, bit for bit as `philox.uniforms` does."""
    return (((numbers >> 12) & (1 << 52) - 1).to(torch.float64) + 0.5) * 2.0**-52


def _multiply(x: torch.Tensor, multiplier: int) -> tuple[torch.Tensor, torch.Tensor]:
    # 64 × 64 → 128 bits by four 32-bit products; no partial sum exceeds 64 bits, taken as unsigned.
    m_low, m_high = multiplier & _LOW, multiplier >> 32
    low, high = x & _LOW, _upper(x)
    middle = high * m_low + _upper(low * m_low)
    cross = low * m_high + (middle & _LOW)
    return high * m_high + _upper(middle) + _upper(cross), x * _signed(multiplier)


def _upper(x: torch.Tensor) -> torch.Tensor:
    return (x >> 32) & _LOW


def _signed(word: int) -> int:
    word &= (1 << 64) - 1
    return word - (1 << 64) if word >> 63 else word
