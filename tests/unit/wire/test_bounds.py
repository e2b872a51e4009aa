"""Entries are counted before they are parsed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreword.errors import InvalidField
from foreword.v1 import target_pb2
from foreword.wire.bounds import _count_fields, check_entries
from foreword.wire.frames import build_frame, wrap


def test_fields_of_every_wire_type_count():
    varint, fixed64, text, fixed32 = b"\x08\x96\x01", b"\x11" + bytes(8), b"\x1a\x03abc", b"\x25" + bytes(4)
    assert _count_fields(varint + fixed64 + text + fixed32 + text, 100) == 5
    assert _count_fields(b"", 100) == 0


@pytest.mark.parametrize("length", [0, 1, 127, 128, 40_000])
def test_long_entries_are_skipped_not_read(length):
    assert _count_fields(wrap(3, bytes([0x1A]) * length) * 3, 100) == 3


def test_the_count_is_that_of_protobuf():
    commands = target_pb2.TargetServiceAttachRequest()
    for sid in range(300):
        commands.commands.add().recall.sid = sid * 1000
    data = build_frame([], hello=None) + commands.SerializeToString()
    check_entries(data, 300)
    with pytest.raises(InvalidField, match="frame: got 'over 299', wanted at most 299 messages"):
        check_entries(data, 299)


def test_counting_stops_early():
    assert _count_fields(b"\x1a\x00" * 1_000_000, 10) == 11


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.binary(max_size=64))
def test_malformed_bytes_end_the_count(data):
    assert 0 <= _count_fields(data, 1000) <= len(data)


def test_frames_that_cannot_have_too_many_entries_are_not_scanned(monkeypatch):
    monkeypatch.setattr("foreword.wire.bounds._count_fields", lambda *_: pytest.fail("scanned"))
    check_entries(bytes(2000), 1000)
