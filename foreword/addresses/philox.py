"""Philox4x64-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3; SC 2011), numpy's layout.

The numbers at (key, address) are by definition those of

    numpy.random.Philox(key=key, counter=[0, position, round, digest]).random_raw(count)

where the key's 16 bytes are two little-endian words. numpy increments the counter before it makes a block, so number i
is lane i % 4 of the block whose counter is [i // 4 + 1, position, round, digest].

Three ways to the same bits: `integers` reads a prefix with numpy's C generator (5 ns a number), `integers_at` picks
single indices by array arithmetic (about 0.1 ms and 0.1 µs a number), `first_integers` takes number 0 of several
addresses (3 µs each).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from foreword.addresses.keys import KEY_BYTES, Address
from foreword.errors import InvalidField

U64 = NDArray[np.uint64]
Picks = tuple[bytes, Address, NDArray[np.integer]]
"""A key, an address, and the indices wanted there."""

MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
ROUNDS = 10

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_M = np.array(MULTIPLIERS, dtype=np.uint64)[:, None]
_M_LOW, _M_HIGH = _M & _LOW, _M >> _HALF


def key_words(key: bytes) -> U64:
    """Return a key as uint64[2]; raise InvalidField if it is not 16 bytes."""
    if len(key) != KEY_BYTES:
        raise InvalidField("key", f"{len(key)} bytes", f"{KEY_BYTES} bytes")
    return np.frombuffer(key, dtype="<u8").astype(np.uint64)


def integers(key: bytes, address: Address, count: int) -> U64:
    """Return the first `count` numbers at an address, uint64[count]."""
    return _generator(key, address).random_raw(count)


def first_integers(key: bytes, addresses: Sequence[Address]) -> U64:
    """Return number 0 of each address, uint64[len(addresses)]."""
    result = np.empty(len(addresses), dtype=np.uint64)
    if not addresses:
        return result
    generator = _generator(key, addresses[0])
    state = generator.state
    for i, address in enumerate(addresses):
        state["state"]["counter"] = _counter(address)
        generator.state = state
        result[i] = generator.random_raw()
    return result


def integers_at(key: bytes, address: Address, indices: NDArray[np.integer]) -> U64:
    """Return the numbers with the given indices at an address, uint64[n]; bit-equal to `integers(...)[indices]`."""
    return integers_across([(key, address, indices)])[0]


def integers_across(picks: Sequence[Picks]) -> list[U64]:
    """Do `integers_at` for several keys and addresses in one pass of array arithmetic."""
    if not picks:
        return []
    sizes = [len(indices) for _, _, indices in picks]
    if not sum(sizes):
        return [np.empty(0, dtype=np.uint64) for _ in picks]
    indices = np.concatenate([indices for _, _, indices in picks]).astype(np.uint64)
    words = np.array([(*key_words(key), *_words(address)) for key, address, _ in picks], dtype=np.uint64)
    spread = np.repeat(words, sizes, axis=0) if len(picks) > 1 else np.broadcast_to(words, (len(indices), 5))
    even = np.stack([indices // 4 + np.uint64(1), spread[:, 3]])
    odd = np.stack([spread[:, 2], spread[:, 4]])
    even, odd = _rounds(even, odd, keys=words.T if len(picks) == 1 else spread.T)
    # Lanes 0..3 of a block are even[0], odd[0], even[1], odd[1].
    lane = indices % 4
    upper = lane >= 2
    result = np.where(lane % 2 == 0, np.where(upper, even[1], even[0]), np.where(upper, odd[1], odd[0]))
    return np.split(result, np.cumsum(sizes)[:-1])


def uniforms(numbers: U64) -> NDArray[np.float64]:
    """Map numbers to float64 strictly between 0 and 1: the middle of one of 2**52 equal cells.

    With 53 bits the last cell's middle, 1 - 2**-54, rounds to 1; with 52 every middle is a float64.
    """
    return ((numbers >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def _rounds(even: U64, odd: U64, *, keys: U64) -> tuple[U64, U64]:
    # even holds counter words 0 and 2, odd words 1 and 3, each uint64[2, n]; keys' first two rows are the key words.
    bumped = keys[:2].copy()
    weyl = np.array(WEYL, dtype=np.uint64)[:, None]
    for _ in range(ROUNDS):
        high, low = _multiply(even)
        even = high[::-1] ^ odd ^ bumped
        odd = low[::-1]
        bumped += weyl
    return even, odd


def _multiply(x: U64) -> tuple[U64, U64]:
    # 64 × 64 → 128 bits by four 32-bit products; no partial sum exceeds 64 bits.
    low, high = x & _LOW, x >> _HALF
    middle = high * _M_LOW + ((low * _M_LOW) >> _HALF)
    cross = low * _M_HIGH + (middle & _LOW)
    return high * _M_HIGH + (middle >> _HALF) + (cross >> _HALF), x * _M


def _generator(key: bytes, address: Address) -> np.random.Philox:
    return np.random.Philox(key=key_words(key), counter=_counter(address))


def _counter(address: Address) -> U64:
    return np.array([0, *_words(address)], dtype=np.uint64)


def _words(address: Address) -> tuple[int, int, int]:
    return address.position, address.round, address.digest
