"""Errors of failed calls, from the details that servers put beside the status.

Details are a google.rpc.Status with ErrorInfo and RetryInfo (AIP-193). The SDK reads them by descriptors of its own in
a pool of its own, so that it needs no package beside protobuf and meets nobody else's registration of the same names.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from foreword import errors
from foreword.errors import ForewordError, InvalidField, NotFound

DETAILS_KEY: Final = "grpc-status-details-bin"
DOMAIN: Final = "foreword"
"""The domain of ErrorInfo; reasons of other domains are not ours."""

_ERROR_INFO: Final = "google.rpc.ErrorInfo"
_RETRY_INFO: Final = "google.rpc.RetryInfo"
_TEXT, _BYTES, _INT = 9, 12, 5
"""Field types of descriptor.proto; a Duration's int64 seconds fit here too, as retries are short."""

_BY_CODE: Final[dict[str, type[ForewordError]]] = {
    "UNAUTHENTICATED": errors.Unauthorized,
    "PERMISSION_DENIED": errors.Unauthorized,
    "NOT_FOUND": errors.NotFound,
    "UNIMPLEMENTED": errors.Mismatch,
    "FAILED_PRECONDITION": errors.Mismatch,
    "DATA_LOSS": errors.Corrupted,
    "RESOURCE_EXHAUSTED": errors.Full,
    "UNAVAILABLE": errors.Unavailable,
    "DEADLINE_EXCEEDED": errors.DeadlineExceeded,
    "CANCELLED": errors.Cancelled,
}
"""What a status without details stands for; the others are protocol faults."""


class Printed(str):
    """The printed form of a value that the server saw; prints as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, slots=True)
class Details:
    """What Foreword reads from a status."""

    reason: str = ""
    metadata: tuple[tuple[str, str], ...] = ()
    retry_after_ms: int | None = None


def error_from(error: grpc.aio.AioRpcError, address: str) -> ForewordError:
    """Return the error that a failed call to `address` stands for."""
    code, text = error.code(), error.details() or f"gRPC status {error.code().name}"
    raw = dict(error.trailing_metadata() or ()).get(DETAILS_KEY)
    details = decode_details(raw) if isinstance(raw, bytes) else Details()
    known = dict(details.metadata)
    parts = known.get("field", ""), Printed(known.get("seen", "")), known.get("wanted", "")
    if details.reason == InvalidField("", "", "").reason:
        return InvalidField(*parts)
    kind = _by_reason().get(details.reason)
    if kind is NotFound and parts[0]:
        return NotFound.of(*parts)
    if kind is not None:
        return kind(text, retry_after_ms=details.retry_after_ms)
    if code is grpc.StatusCode.UNAVAILABLE:
        text = f"address: got {address}, wanted a server that answers ({text})"
    elif code is grpc.StatusCode.UNIMPLEMENTED:
        text = f"address: got {address}, wanted a Foreword orchestrator ({text})"
    elif code is grpc.StatusCode.DEADLINE_EXCEEDED:
        text = f"timeout_s: the call to {address} was not over in time"
    return _BY_CODE.get(code.name, errors.ProtocolFault)(text, retry_after_ms=details.retry_after_ms)


def decode_details(data: bytes) -> Details:
    """Return what `data`, the bytes of a google.rpc.Status, says; bytes that are no such message say nothing."""
    reason, retry_after_ms = "", None
    metadata: tuple[tuple[str, str], ...] = ()
    try:
        status = _message("Status").FromString(data)
        for detail in status.details:
            kind = detail.type_url.rpartition("/")[2]
            if kind == _ERROR_INFO:
                info = _message("ErrorInfo").FromString(detail.value)
                if info.domain == DOMAIN:
                    reason = info.reason
                    metadata = tuple((entry.key, entry.value) for entry in info.metadata)
            elif kind == _RETRY_INFO:
                delay = _message("RetryInfo").FromString(detail.value).retry_delay
                retry_after_ms = delay.seconds * 1000 + delay.nanos // 1_000_000
    except DecodeError:
        return Details()  # the status itself still says what happened
    return Details(reason, metadata, retry_after_ms)


def encode_details(error: ForewordError) -> bytes:
    """Return `error` as the bytes of a google.rpc.Status; the inverse of `decode_details`, for servers of tests."""
    info = _message("ErrorInfo")(reason=error.reason, domain=DOMAIN)
    if isinstance(error, InvalidField | NotFound) and error.field:
        for key, value in (("field", error.field), ("seen", repr(error.seen)), ("wanted", error.wanted)):
            info.metadata.add(key=key, value=value)
    status = _message("Status")(code=grpc.StatusCode[error.code].value[0], message=error.message)
    status.details.add(type_url=f"type.googleapis.com/{_ERROR_INFO}", value=info.SerializeToString())
    if error.retry_after_ms is not None:
        seconds, ms = divmod(error.retry_after_ms, 1000)
        retry = _message("RetryInfo")(retry_delay={"seconds": seconds, "nanos": ms * 1_000_000})
        status.details.add(type_url=f"type.googleapis.com/{_RETRY_INFO}", value=retry.SerializeToString())
    data: bytes = status.SerializeToString()
    return data


@cache
def _by_reason() -> dict[str, type[ForewordError]]:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ForewordError)]
    return {kind("").reason: kind for kind in kinds if kind not in (ForewordError, InvalidField)}


@cache
def _message(name: str) -> Any:
    """Return the class of one of the messages below."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{DOMAIN}.status.{name}"))


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    """Describe Status, Any, ErrorInfo, RetryInfo and Duration as far as they are read; a map is a list of entries."""
    file = descriptor_pb2.FileDescriptorProto(name="status.proto", package=f"{DOMAIN}.status", syntax="proto3")
    _describe(file, "Any", type_url=_TEXT, value=_BYTES)
    _describe(file, "Status", code=_INT, message=_TEXT, details="Any*")
    _describe(file, "Entry", key=_TEXT, value=_TEXT)
    _describe(file, "ErrorInfo", reason=_TEXT, domain=_TEXT, metadata="Entry*")
    _describe(file, "Duration", seconds=_INT, nanos=_INT)
    _describe(file, "RetryInfo", retry_delay="Duration")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def _describe(file: descriptor_pb2.FileDescriptorProto, name: str, **fields: int | str) -> None:
    """Add a message whose fields are numbered from 1: of a plain type, of a message type, or (`*`) a list of those."""
    message = file.message_type.add(name=name)
    for number, (field, kind) in enumerate(fields.items(), start=1):
        added = message.field.add(name=field, number=number, label=descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL)
        if isinstance(kind, int):
            added.type = kind  # type: ignore[assignment]
            continue
        added.type = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
        added.type_name = f".{file.package}.{kind.removesuffix('*')}"
        if kind.endswith("*"):
            added.label = descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED
