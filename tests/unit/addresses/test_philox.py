"""Philox: numpy's bits by three ways and in torch, over carries and edge counters."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreword.addresses import Address
from foreword.addresses.philox import (
    U64,
    Pick,
    _block,
    first_integers,
    integers,
    integers_across,
    integers_at,
    integers_computed,
    integers_sought,
    uniforms,
)
from foreword.errors import InvalidField

FIXED = settings(deadline=None, derandomize=True)
TOP = 2**64 - 1
WAYS = [integers_computed, integers_sought, lambda picks: list(integers_across(picks))]

words = st.one_of(st.sampled_from([0, 1, 2**32 - 1, 2**32, 2**63, TOP]), st.integers(0, TOP))
addresses = st.builds(Address, words, words, words)
keys = st.one_of(st.sampled_from([bytes(16), b"\xff" * 16]), st.binary(min_size=16, max_size=16))


def by_definition(key: bytes, address: Address, count: int) -> U64:
    counter = np.array([0, address.position, address.round, address.digest], dtype=np.uint64)
    return np.random.Philox(key=np.frombuffer(key, dtype="<u8"), counter=counter).random_raw(count)


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ([0] * 4, [0] * 2, "16554d9eca36314c db20fe9d672d0fdc d7e772cee186176b 7e68b68aec7ba23b"),
        ([TOP] * 4, [TOP] * 2, "87b092c3013fe90b 438c3c67be8d0224 9cc7d7c69cd777b6 a09caebf594f0ba0"),
        (
            [0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89],
            [0x452821E638D01377, 0xBE5466CF34E90C6C],
            "a528f45403e61d95 38c72dbd566e9788 a5a1610e72fd18b5 57bd43b5e52b7fe6",
        ),
    ],
    ids=["zeros", "ones", "pi"],
)
def test_known_answers_of_random123(counter: list[int], key: list[int], expected: str) -> None:
    words = np.array(counter, dtype=np.uint64)[:, None]
    even, odd = _block(words[0::2], words[1::2], keys=np.array(key, dtype=np.uint64)[:, None])
    assert " ".join(f"{int(word):016x}" for word in (even[0, 0], odd[0, 0], even[1, 0], odd[1, 0])) == expected


@FIXED
@given(keys, addresses, st.integers(0, 40))
def test_a_prefix_is_numpys(key: bytes, address: Address, count: int) -> None:
    assert np.array_equal(integers(key, address, count), by_definition(key, address, count))


@FIXED
@pytest.mark.parametrize("way", WAYS, ids=["computed", "sought", "cheapest"])
@given(st.lists(st.tuples(keys, addresses, st.sets(st.integers(0, 300), max_size=12)), max_size=4))
def test_picked_numbers_are_those_of_the_prefix(
    way: Callable[[Sequence[Pick]], list[U64]], wanted: list[tuple[bytes, Address, set[int]]]
) -> None:
    picks = [(key, address, np.array(sorted(indices), dtype=np.int32)) for key, address, indices in wanted]
    for (key, address, indices), numbers in zip(picks, way(picks), strict=True):
        assert numbers.dtype == np.uint64
        assert np.array_equal(numbers, by_definition(key, address, 301)[indices])


@pytest.mark.parametrize("way", WAYS, ids=["computed", "sought", "cheapest"])
@pytest.mark.parametrize("size", [1, 3, 100, 3000])
def test_picks_of_every_size(way: Callable[[Sequence[Pick]], list[U64]], size: int) -> None:
    key = bytes(range(16))
    rng = np.random.default_rng(size)
    picks = [(key, Address(i), np.sort(rng.choice(50_000, size, replace=False))) for i in range(3)]
    for (_, address, indices), numbers in zip(picks, way(picks), strict=True):
        assert np.array_equal(numbers, by_definition(key, address, 50_000)[indices])


def test_far_indices() -> None:
    # Blocks beyond 2**32 carry into the upper half of the first counter word.
    index = np.array([4 * (2**32 - 1) - 1, 4 * (2**32 - 1), 2**62], dtype=np.int64)
    expected = []
    for i in index.tolist():
        generator = np.random.Philox(key=np.zeros(2, dtype=np.uint64), counter=np.array([i // 4, 1, 2, 3], np.uint64))
        expected.append(generator.random_raw(4)[i % 4])
    for way in WAYS:
        assert way([(bytes(16), Address(1, 2, 3), index)])[0].tolist() == expected
    assert integers_at(bytes(16), Address(1, 2, 3), index).tolist() == expected


@FIXED
@given(keys, st.lists(addresses, max_size=5))
def test_first_numbers(key: bytes, some: list[Address]) -> None:
    numbers = first_integers(key, some)
    assert numbers.dtype == np.uint64
    assert numbers.tolist() == [int(by_definition(key, address, 1)[0]) for address in some]


def test_counts_and_picks_mix() -> None:
    key, ids = bytes(16), np.array([5, 6])
    numbers = list(integers_across([(key, Address(0), 8), (key, Address(1), ids), (key, Address(2), ids[:0])]))
    assert np.array_equal(numbers[0], by_definition(key, Address(0), 8))
    assert np.array_equal(numbers[1], by_definition(key, Address(1), 8)[ids])
    assert numbers[2].shape == (0,)


def test_numbers_read_in_order_are_made_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr("foreword.addresses.philox.integers", lambda _key, address, count: made.append(address))
    numbers = integers_across([(bytes(16), Address(i), 100) for i in range(3)])
    next(numbers)
    assert made == [Address(0)]


def test_a_key_has_16_bytes() -> None:
    with pytest.raises(InvalidField, match="key: got '15 bytes', wanted 16 bytes"):
        integers(bytes(15), Address(0), 1)


def test_uniforms_are_never_0_or_1() -> None:
    extremes = uniforms(np.array([0, TOP], dtype=np.uint64))
    assert extremes.tolist() == [2.0**-53, 1.0 - 2.0**-53]
    # The 53-bit formula, planted: its last value is 1, and a coin with h = 1 would fail.
    assert ((TOP >> 11) + 0.5) * 2.0**-53 == 1.0


@FIXED
@given(st.lists(words, min_size=1, max_size=20))
def test_uniforms_are_the_middles_of_cells(numbers: list[int]) -> None:
    u = uniforms(np.array(numbers, dtype=np.uint64))
    assert [int(x * 2**53) for x in u] == [2 * (n >> 12) + 1 for n in numbers]


@settings(FIXED, max_examples=30)
@given(keys, addresses, st.lists(st.integers(0, 2**40), min_size=1, max_size=20))
def test_torch_gives_the_same_bits(key: bytes, address: Address, indices: list[int]) -> None:
    check_torch(key, address, indices, device="cpu")


@pytest.mark.gpu
def test_cuda_gives_the_same_bits() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        key = rng.bytes(16)
        address = Address(*(int(x) for x in rng.integers(0, TOP, 3, dtype=np.uint64, endpoint=True)))
        check_torch(key, address, rng.integers(0, 2**40, 1000).tolist(), device="cuda")


def check_torch(key: bytes, address: Address, indices: list[int], *, device: str) -> None:
    torch = pytest.importorskip("torch")
    from foreword.addresses import philox_torch

    expected = integers_computed([(key, address, np.array(indices))])[0]
    numbers = philox_torch.integers_at(key, address, torch.tensor(indices, device=device))
    assert np.array_equal(numbers.cpu().numpy().view(np.uint64), expected)
    assert np.array_equal(philox_torch.uniforms(numbers).cpu().numpy(), uniforms(expected))
