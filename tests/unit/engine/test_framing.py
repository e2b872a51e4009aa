"""Messages between service and engine, cut anywhere."""

import pytest

from foreword.engine.framing import Kind, Start, Unpacker, pack

MESSAGES = [
    (Kind.START, Start("a:b", {"x": 1})),
    (Kind.BATCH, []),
    (Kind.BATCH, bytes(70_000)),
    (Kind.READY, None),
    (Kind.STOP, None),
]
STREAM = b"".join(pack(kind, value) for kind, value in MESSAGES)


@pytest.mark.parametrize("size", [1, 7, 9, 4096, len(STREAM)])
def test_messages_come_out_whole_and_in_order_however_they_are_cut(size):
    unpacker = Unpacker()
    got = [message for start in range(0, len(STREAM), size) for message in unpacker.feed(STREAM[start : start + size])]
    assert got == MESSAGES
    assert unpacker._buffer == b""


def test_nothing_is_given_out_early():
    unpacker = Unpacker()
    assert list(unpacker.feed(STREAM[:5])) == []
    assert list(unpacker.feed(STREAM[5:])) == MESSAGES


def test_unknown_kinds_are_errors():
    with pytest.raises(ValueError, match="99"):
        list(Unpacker().feed(pack(99)))
