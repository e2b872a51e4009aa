"""ForewordError → status → ForewordError."""

from base64 import b64encode
from urllib.parse import quote

import grpc
import grpc.aio
import pytest

from foreword import errors
from foreword.client.status import decode_details
from foreword.errors import ForewordError, Full, InvalidField, NotFound, ProtocolFault, Unavailable
from foreword.rpc.errors import error_from_rpc, status_of

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, ForewordError) and kind not in (ForewordError, InvalidField)
]


def rpc_error(status):
    metadata = grpc.aio.Metadata(*status.trailing_metadata)
    return grpc.aio.AioRpcError(status.code, grpc.aio.Metadata(), metadata, details=status.details)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_comes_back_as_itself(kind):
    status = status_of(kind("model: got 'x', wanted 'y'", retry_after_ms=1250))
    assert status.code.name == kind.code
    assert status.details == "model: got 'x', wanted 'y'"
    back = error_from_rpc(rpc_error(status))
    assert type(back) is kind
    assert (back.message, back.retry_after_ms) == ("model: got 'x', wanted 'y'", 1250)


def test_an_invalid_field_keeps_its_parts_and_its_words():
    error = InvalidField("top_p", 1.5, "a number over 0 and up to 1")
    back = error_from_rpc(rpc_error(status_of(error)))
    assert isinstance(back, InvalidField)
    assert (back.field, str(back.seen), back.wanted) == ("top_p", "1.5", "a number over 0 and up to 1")
    assert back.message == error.message


def test_a_name_of_nothing_keeps_its_parts_and_its_words():
    error = NotFound.of("speculation.draft", "nope", "one of those that are served: small")
    back = error_from_rpc(rpc_error(status_of(error)))
    assert isinstance(back, NotFound)
    assert (back.field, repr(back.seen), back.wanted) == (error.field, "'nope'", error.wanted)
    assert back.message == error.message


def test_the_client_sdk_reads_the_same_details():
    ((_, data),) = status_of(Full("no room", retry_after_ms=300)).trailing_metadata
    details = decode_details(data)
    assert (details.reason, details.retry_after_ms) == ("FULL", 300)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (grpc.StatusCode.UNAVAILABLE, Unavailable),
        (grpc.StatusCode.UNIMPLEMENTED, ProtocolFault),
        (grpc.StatusCode.UNAUTHENTICATED, errors.Unauthorized),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, Full),
    ],
)
def test_foreign_statuses_map_by_their_code(code, kind):
    back = error_from_rpc(grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details="why"))
    assert type(back) is kind
    assert back.message == "why"
    assert error_from_rpc(grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata())).message


def test_details_that_are_broken_or_contradict_are_ignored():
    for data in (b"\xff\xff", status_of(Full("other")).trailing_metadata[0][1]):
        metadata = grpc.aio.Metadata(("grpc-status-details-bin", data))
        error = grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), metadata, details="gone")
        assert type(error_from_rpc(error)) is Unavailable


def header_bytes(status):
    """What the status takes on the wire: its message percent-encoded, binary metadata in base 64."""
    message = quote(status.details, safe="".join(chr(c) for c in range(0x20, 0x7F) if c != ord("%")))
    return len(message) + sum(len(key) + len(b64encode(value)) for key, value in status.trailing_metadata)


@pytest.mark.parametrize("character", ["y", "%", "\n", "é", "漢", "😀"])
def test_texts_of_any_length_fit_into_headers(character):
    status = status_of(InvalidField("x" * 10, character * 100_000, character * 100_000))
    assert header_bytes(status) < 8_000
    assert status.details.endswith("…")
    assert header_bytes(status_of(NotFound(f"model: got {character * 2_000!r}"))) < 8_000


def test_texts_that_fit_are_whole():
    for text in ("", "a" * 2_000, "漢" * 222):
        assert status_of(NotFound(text)).details == text
    assert status_of(NotFound("漢" * 223)).details == "漢" * 221 + "…"
