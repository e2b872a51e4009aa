"""Philox4x64-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3; SC 2011), numpy's layout.

The numbers at (key, address) are by definition those of

    numpy.random.Philox(key=key, counter=[0, position, round, digest]).random_raw(count)

where the key's 16 bytes are two little-endian words. numpy increments the counter before it makes a block, so number i
is lane i % 4 of the block whose counter is [i // 4 + 1, position, round, digest].

There are three ways to the same bits: `integers` reads the first numbers with numpy's C generator, `integers_sought`
moves that generator to each index, `integers_computed` computes single indices by array arithmetic. `integers_at` and
`integers_across` take the one that costs least.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeGuard

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import NDArray

from foreword.addresses.keys import KEY_BYTES, Address
from foreword.errors import InvalidField

U64 = NDArray[np.uint64]
Indices = NDArray[np.integer[Any]]
Pick = tuple[bytes, Address, Indices]
"""A key, an address, and the indices wanted there, ascending."""
Draw = tuple[bytes, Address, Indices | int]
"""A pick, or how many are wanted from the first on."""

MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
ROUNDS = 10

# Measured microseconds: a number read in order, one sought, one computed, and what a pass of computing costs at least.
_READ, _SEEK, _COMPUTE, _PASS = 0.005, 2.2, 0.25, 200.0

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_M = np.array(MULTIPLIERS, dtype=np.uint64)[:, None]
_M_LOW, _M_HIGH = _M & _LOW, _M >> _HALF


def key_words(key: bytes) -> tuple[int, int]:
    """Return the two words of a key; raise InvalidField if it is not 16 bytes."""
    if len(key) != KEY_BYTES:
        raise InvalidField("key", f"{len(key)} bytes", f"{KEY_BYTES} bytes")
    return int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")


def integers(key: bytes, address: Address, count: int) -> U64:
    """Return the first `count` numbers at an address, uint64[count]."""
    numbers: U64 = _Reader().at(key, address, 0).random_raw(count)
    return numbers


def first_integers(key: bytes, addresses: Sequence[Address]) -> U64:
    """Return number 0 of each address, uint64[len(addresses)]."""
    reader = _Reader()
    return np.array([reader.at(key, address, 0).random_raw() for address in addresses], dtype=np.uint64)


def integers_at(key: bytes, address: Address, indices: Indices) -> U64:
    """Return the numbers with the given ascending indices at an address: `integers(...)[indices]`, uint64[n]."""
    return next(integers_across([(key, address, indices)]))


def integers_sought(picks: Sequence[Pick]) -> list[U64]:
    """Return the numbers with the given indices for each pick, one by one: the cheapest way to a few dozen."""
    reader = _Reader()
    return [
        np.array([_number(reader, key, address, index) for index in indices.tolist()], dtype=np.uint64)
        for key, address, indices in picks
    ]


def integers_computed(picks: Sequence[Pick]) -> list[U64]:
    """Return the numbers with the given indices for each pick, all computed in one pass of array arithmetic."""
    sizes = [len(indices) for _, _, indices in picks]
    if not sum(sizes):
        return [np.empty(0, dtype=np.uint64) for _ in picks]
    indices = np.concatenate([indices for _, _, indices in picks]).astype(np.uint64)
    words = np.array([(*key_words(key), *_words(address)) for key, address, _ in picks], dtype=np.uint64)
    spread = words.repeat(sizes, axis=0)
    even, odd = _block(np.stack([indices // 4 + np.uint64(1), spread[:, 3]]), spread[:, 2::2].T, keys=spread[:, :2].T)
    # Lanes 0 to 3 of a block are even[0], odd[0], even[1], odd[1].
    lane = indices % 4
    upper = lane >= 2
    numbers = np.where(lane % 2 == 0, np.where(upper, even[1], even[0]), np.where(upper, odd[1], odd[0]))
    return np.split(numbers, np.cumsum(sizes)[:-1])


def integers_across(draws: Sequence[Draw]) -> Iterator[U64]:
    """Yield the numbers of each draw, each by the cheapest way; those read in order only when they are asked for."""
    picks = [(key, address, wanted) for key, address, wanted in draws if _picked(wanted, among=len(draws))]
    total = sum(len(indices) for _, _, indices in picks)
    picked = iter(integers_sought(picks) if total * _SEEK < _PASS + total * _COMPUTE else integers_computed(picks))
    for key, address, wanted in draws:
        if _picked(wanted, among=len(draws)):
            yield next(picked)
        elif isinstance(wanted, int):
            yield integers(key, address, wanted)
        else:
            yield integers(key, address, int(wanted[-1]) + 1)[wanted]


def uniforms(numbers: U64) -> NDArray[np.float64]:
    """Map numbers to float64 strictly between 0 and 1: the middle of one of 2**52 equal cells.

    With 53 bits the last cell's middle, 1 - 2**-54, would round to 1; with 52 every middle is a float64.
    """
    return ((numbers >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


class _NoSeed(ISeedSequence):
    """Spares a generator the system's entropy: its key and counter are set before every read."""

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[Any]:
        """Return zeros."""
        return np.zeros(n_words, dtype=dtype)


class _Reader:
    """numpy's generator, moved from block to block."""

    def __init__(self) -> None:
        seed: Any = _NoSeed()  # numpy takes any ISeedSequence, its stubs only one
        self._generator = np.random.Philox(seed)
        # Tuples of Python integers are what the setter of `state` reads fastest.
        self._words: dict[str, Any] = {}
        self._state: Any = {
            "bit_generator": "Philox",
            "state": self._words,
            "buffer": (0, 0, 0, 0),
            "buffer_pos": 4,
            "has_uint32": 0,
            "uinteger": 0,
        }

    def at(self, key: bytes, address: Address, block: int) -> np.random.Philox:
        """Return the generator, about to read the first number of a block."""
        self._words["key"] = key_words(key)
        self._words["counter"] = (block, *_words(address))
        self._generator.state = self._state
        return self._generator


def _picked(wanted: Indices | int, *, among: int) -> TypeGuard[Indices]:
    if isinstance(wanted, int):
        return False
    if not len(wanted):
        return True
    cost = min(len(wanted) * _SEEK, len(wanted) * _COMPUTE + _PASS / among)
    return cost < (int(wanted[-1]) + 1) * _READ


def _number(reader: _Reader, key: bytes, address: Address, index: int) -> int:
    # A fresh block starts at lane 0.
    return int(reader.at(key, address, index // 4).random_raw(index % 4 + 1)[-1])


def _words(address: Address) -> tuple[int, int, int]:
    return address.position, address.round, address.digest


def _block(even: U64, odd: U64, *, keys: U64) -> tuple[U64, U64]:
    # even holds counter words 0 and 2, odd words 1 and 3; all are uint64[2, n].
    keys = keys.copy()
    weyl = np.array(WEYL, dtype=np.uint64)[:, None]
    for _ in range(ROUNDS):
        high, low = _multiply(even)
        even = high[::-1] ^ odd ^ keys
        odd = low[::-1]
        keys += weyl
    return even, odd


def _multiply(x: U64) -> tuple[U64, U64]:
    # 64 × 64 → 128 bits by four 32-bit products; no partial sum exceeds 64 bits.
    low, high = x & _LOW, x >> _HALF
    middle = high * _M_LOW + ((low * _M_LOW) >> _HALF)
    cross = low * _M_HIGH + (middle & _LOW)
    return high * _M_HIGH + (middle >> _HALF) + (cross >> _HALF), x * _M
