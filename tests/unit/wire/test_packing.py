"""Packed numbers."""

import math
import re

import pytest

from foreword.errors import InvalidField
from foreword.wire import packing


def test_little_endian_whatever_the_machine_is():
    assert packing.pack_u16("x", [1, 0x0203]) == b"\x01\x00\x03\x02"
    assert packing.pack_u32("x", [1]) == b"\x01\x00\x00\x00"
    assert packing.pack_f64("x", [1.0]) == b"\x00\x00\x00\x00\x00\x00\xf0\x3f"
    assert packing.pack_ids("x", [258], wide=False) == b"\x02\x01"


@pytest.mark.parametrize(
    ("pack", "unpack", "values"),
    [
        (packing.pack_u16, packing.unpack_u16, (0, 65_535)),
        (packing.pack_u32, packing.unpack_u32, (0, 2**32 - 1)),
        (packing.pack_f32, packing.unpack_f32, (0.5, -1.25)),
        (packing.pack_f64, packing.unpack_f64, (1 / 3, -1e300)),
    ],
)
def test_round_trip_and_bounds(pack, unpack, values):
    data = pack("x", values)
    assert unpack("x", data, most=2) == values
    with pytest.raises(InvalidField, match="x: got 2, wanted at most 1 values"):
        unpack("x", data, most=1)
    with pytest.raises(InvalidField, match="a length that is a multiple of"):
        unpack("x", data[:-1], most=2)
    assert unpack("x", b"", most=0) == ()


@pytest.mark.parametrize(
    ("pack", "value"),
    [
        (packing.pack_u16, 65_536),
        (packing.pack_u16, -1),
        (packing.pack_u32, 2**32),
        (packing.pack_u32, 1.5),
        (packing.pack_f32, 1e39),
    ],
)
def test_what_does_not_fit_is_refused_by_name(pack, value):
    with pytest.raises(InvalidField, match=rf"^x: got {re.escape(str(value))}, wanted "):
        pack("x", [1, value])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_floats_are_finite(value):
    for pack, unpack in ((packing.pack_f32, packing.unpack_f32), (packing.pack_f64, packing.unpack_f64)):
        with pytest.raises(InvalidField, match="finite numbers"):
            unpack("x", pack("x", [0.0, value]), most=2)


def test_log_probabilities_may_be_negative_infinity_only():
    assert packing.unpack_log32("x", packing.pack_f32("x", [-math.inf]), most=1) == (-math.inf,)
    for value in (math.nan, math.inf):
        with pytest.raises(InvalidField, match="log-probabilities"):
            packing.unpack_log32("x", packing.pack_f32("x", [value]), most=1)


def test_counts_travel_minus_one():
    assert packing.pack_counts("x", [1, 65_536]) == b"\x00\x00\xff\xff"
    assert packing.unpack_counts("x", b"\x00\x00\xff\xff", most=2) == [1, 65_536]
    assert packing.unpack_counts("x", packing.pack_counts("x", []), most=0) == []
    for count in (0, 65_537, -1):
        with pytest.raises(InvalidField, match=r"^x: got "):
            packing.pack_counts("x", [5, count])
    with pytest.raises(InvalidField, match="at most 1 values"):
        packing.unpack_counts("x", bytes(4), most=1)


def test_ids_are_under_the_vocabulary():
    assert packing.unpack_ids("x", packing.pack_u32("x", [0, 9]), most=2, vocabulary=10) == (0, 9)
    with pytest.raises(InvalidField, match="x: got 10, wanted token ids from 0 to 9"):
        packing.unpack_ids("x", packing.pack_u16("x", [10]), most=1, vocabulary=10, wide=False)
