"""What one request may carry: bounds that no real one meets, checked before anything costs time."""

import pytest

from foreword.errors import InvalidField
from foreword.protocol.generation import Chat, GenerateRequest, Message, TokenPrompt
from foreword.wire.bounds import check_nested
from foreword.wire.frames import wrap
from foreword.wire.generation import decode_request, encode_request
from foreword.wire.limits import Limits

PROMPT = TokenPrompt((1, 2))


def refused(request: GenerateRequest) -> InvalidField:
    with pytest.raises(InvalidField) as caught:
        decode_request(encode_request(request), Limits())
    return caught.value


def test_stop_texts_are_bounded_together() -> None:
    most = GenerateRequest(PROMPT, stop=("a" * 2_048, "b" * 2_048))
    assert decode_request(encode_request(most), Limits()).stop == most.stop
    error = refused(GenerateRequest(PROMPT, stop=("a" * 2_048, "b" * 2_048, "c")))
    assert (error.field, error.wanted) == ("stop", "at most 4096 in all texts together")


def test_a_role_is_a_word() -> None:
    assert refused(GenerateRequest(Chat((Message("user" * 500, ""),)))).field == "role"


def test_turns_are_counted_before_they_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    request = encode_request(GenerateRequest(Chat((Message("user", ""),) * 16_385)))
    monkeypatch.setattr("foreword.wire.generation.generation_pb2.GenerateRequest", None)
    with pytest.raises(InvalidField, match="messages: got 'over 16384', wanted at most 16384 turns"):
        decode_request(request, Limits())
    with pytest.raises(InvalidField, match="request: got 'over 1024', wanted at most 1024 fields"):
        decode_request(wrap(4, b"") * 1_025, Limits())


def test_turns_in_several_fields_of_one_number_count_together() -> None:
    """Protobuf joins them, so that a bound on each alone would bound nothing."""
    turns = wrap(1, b"") * 3
    check_nested(wrap(4, turns) + wrap(3, turns), 4, 3, field="messages", what="turns")
    with pytest.raises(InvalidField, match="over 5"):
        check_nested(wrap(4, turns) * 2, 4, 5, field="messages", what="turns")
