"""Errors come out of a status as they went in, whoever wrote it, and noise says nothing."""

from __future__ import annotations

import grpc
import pytest
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2
from hypothesis import given, settings
from hypothesis import strategies as st

from foreword import errors
from foreword.client.status import DETAILS_KEY, Details, decode_details, encode_details, error_from
from foreword.errors import ForewordError, Full, InvalidField, Mismatch, NotFound, ProtocolFault, Unavailable

FIXED = settings(deadline=None, derandomize=True)

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ForewordError)]
PLAIN = [kind for kind in KINDS if kind not in (ForewordError, InvalidField)]


def failed(code: grpc.StatusCode, text: str = "text", raw: bytes | None = None) -> grpc.aio.AioRpcError:
    trailing = grpc.aio.Metadata() if raw is None else grpc.aio.Metadata((DETAILS_KEY, raw))
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailing, details=text)


def test_every_error_comes_back_as_itself() -> None:
    assert len(PLAIN) == 11
    for kind in PLAIN:
        error = kind("what: got this, wanted that", retry_after_ms=1500)
        back = error_from(failed(grpc.StatusCode[kind.code], error.message, encode_details(error)), "a:1")
        assert (type(back), str(back), back.retry_after_ms) == (kind, error.message, 1500)


def test_an_invalid_field_keeps_its_three_parts() -> None:
    error = InvalidField("top_p", 7.5, "a number over 0 and up to 1")
    back = error_from(failed(grpc.StatusCode.INVALID_ARGUMENT, error.message, encode_details(error)), "a:1")
    assert isinstance(back, InvalidField)
    assert str(back) == str(error)
    assert (back.field, repr(back.seen), back.wanted) == ("top_p", "7.5", "a number over 0 and up to 1")


def test_a_name_of_nothing_keeps_its_three_parts_and_what_is_not_about_a_field_has_none() -> None:
    error = NotFound.of("model", "nope", "'small', the one that is served")
    back = error_from(failed(grpc.StatusCode.NOT_FOUND, error.message, encode_details(error)), "a:1")
    assert isinstance(back, NotFound)
    assert str(back) == str(error) == "model: got 'nope', wanted 'small', the one that is served"
    assert (back.field, repr(back.seen), back.wanted) == ("model", "'nope'", "'small', the one that is served")
    assert NotFound("no such request").field == ""


def test_details_by_the_official_classes_are_read() -> None:
    info, retry = any_pb2.Any(), any_pb2.Any()
    info.Pack(error_details_pb2.ErrorInfo(reason="FULL", domain="foreword", metadata={"queue": "7"}))
    retry.Pack(error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=2, nanos=250_000_000)))
    status = status_pb2.Status(code=8, message="m", details=[info, retry])
    assert decode_details(status.SerializeToString()) == Details("FULL", (("queue", "7"),), 2250)


def test_details_are_written_as_the_official_classes_read_them() -> None:
    data = encode_details(Full("m", retry_after_ms=2250))
    status = status_pb2.Status.FromString(data)
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    assert status.details[0].Unpack(info)
    assert status.details[1].Unpack(retry)
    assert (status.code, info.reason, info.domain) == (grpc.StatusCode.RESOURCE_EXHAUSTED.value[0], "FULL", "foreword")
    assert retry.retry_delay.ToMilliseconds() == 2250


def test_reasons_of_other_domains_are_not_ours() -> None:
    info = any_pb2.Any()
    info.Pack(error_details_pb2.ErrorInfo(reason="FULL", domain="elsewhere"))
    raw = status_pb2.Status(code=3, details=[info]).SerializeToString()
    assert type(error_from(failed(grpc.StatusCode.NOT_FOUND, "gone", raw), "a:1")) is errors.NotFound


def test_a_status_alone_maps_by_its_code_and_names_the_address() -> None:
    unreachable = error_from(failed(grpc.StatusCode.UNAVAILABLE, "connection refused"), "a:1")
    assert isinstance(unreachable, Unavailable)
    assert str(unreachable) == "address: got a:1, wanted a server that answers (connection refused)"
    foreign = error_from(failed(grpc.StatusCode.UNIMPLEMENTED, "no such method"), "a:1")
    assert isinstance(foreign, Mismatch)
    assert "wanted a Foreword orchestrator" in str(foreign)
    assert isinstance(error_from(failed(grpc.StatusCode.UNKNOWN), "a:1"), ProtocolFault)
    assert str(error_from(failed(grpc.StatusCode.DATA_LOSS, ""), "a:1")) == "gRPC status DATA_LOSS"


@FIXED
@given(st.binary(max_size=60))
def test_noise_in_the_details_leaves_the_status(data: bytes) -> None:
    error = error_from(failed(grpc.StatusCode.NOT_FOUND, "gone", data), "a:1")
    assert isinstance(error, ForewordError)


@pytest.mark.parametrize("kind", PLAIN)
def test_the_servers_side_agrees(kind: type[ForewordError]) -> None:
    server = pytest.importorskip("foreword.rpc.errors")
    status = server.status_of(kind("what: got this, wanted that", retry_after_ms=40))
    raw = dict(status.trailing_metadata)[DETAILS_KEY]
    back = error_from(failed(status.code, status.details, raw), "a:1")
    assert (type(back), str(back), back.retry_after_ms) == (kind, "what: got this, wanted that", 40)


def test_the_servers_side_agrees_on_invalid_fields() -> None:
    server = pytest.importorskip("foreword.rpc.errors")
    error = InvalidField("gamma", "x", "a whole number")
    status = server.status_of(error)
    back = error_from(failed(status.code, status.details, dict(status.trailing_metadata)[DETAILS_KEY]), "a:1")
    assert str(back) == str(error)
