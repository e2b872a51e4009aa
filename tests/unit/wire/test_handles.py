"""Handles of tickets on one PushBlocks stream."""

import pytest

from foreword.errors import InvalidField, ProtocolFault
from foreword.wire.handles import HandleDecoder, HandleEncoder


def ticket(number):
    return number.to_bytes(16, "little")


def test_a_ticket_is_named_once():
    encoder, decoder = HandleEncoder(8), HandleDecoder(8)
    handle, first = encoder.name(ticket(1))
    assert first
    assert decoder.resolve(handle, ticket(1)) == ticket(1)
    assert encoder.name(ticket(1)) == (handle, False)
    assert decoder.resolve(handle, None) == ticket(1)
    assert (decoder.handle(ticket(1)), encoder.ticket(handle)) == (handle, ticket(1))


def test_memory_is_bounded_and_what_was_forgotten_is_named_anew():
    encoder, decoder = HandleEncoder(8), HandleDecoder(8)
    for round_ in range(50):
        for number in (0, round_ + 1):
            handle, first = encoder.name(ticket(number))
            assert decoder.resolve(handle, ticket(number) if first else None) == ticket(number)
            assert encoder.ticket(decoder.handle(ticket(number))) == ticket(number)
    assert max(len(table) for table in (encoder._known, encoder._tickets, decoder._tickets, decoder._handles)) <= 8


def test_faults():
    decoder = HandleDecoder(4)
    with pytest.raises(ProtocolFault, match=r"block\.handle: got 5"):
        decoder.resolve(5, None)
    with pytest.raises(InvalidField, match=r"block\.ticket: got 3, wanted 16 bytes"):
        decoder.resolve(5, b"abc")
    decoder.resolve(5, ticket(1))
    with pytest.raises(ProtocolFault, match="second ticket"):
        decoder.resolve(5, ticket(2))
    with pytest.raises(ProtocolFault, match=r"receipt\.ticket"):
        decoder.handle(ticket(9))
    with pytest.raises(InvalidField, match="16 bytes"):
        HandleEncoder(4).name(b"abc")
