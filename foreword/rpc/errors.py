"""Errors on the wire: ForewordError ↔ gRPC status with google.rpc ErrorInfo and RetryInfo (AIP-193).

The status carries the error's canonical code and message; ErrorInfo has domain "foreword", the error's reason and, for
a field of the request, what was seen and what was wanted; RetryInfo says when to ask again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status  # type: ignore[import-untyped]

from foreword import errors
from foreword.errors import ForewordError, InvalidField, NotFound, shown

DOMAIN = "foreword"
MOST_MESSAGE_BYTES = 2_000
"""Of a message in its header, where percent-encoding makes nine of a Chinese character; headers may have 8 KB."""
_MARK = "…"

_BY_REASON: Mapping[str, type[ForewordError]] = {
    kind("").reason: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, ForewordError) and kind not in (ForewordError, InvalidField)
}
_BY_CODE: Mapping[str, type[ForewordError]] = {
    "UNAUTHENTICATED": errors.Unauthorized,
    "PERMISSION_DENIED": errors.Unauthorized,
    "NOT_FOUND": errors.NotFound,
    "FAILED_PRECONDITION": errors.Mismatch,
    "DATA_LOSS": errors.Corrupted,
    "RESOURCE_EXHAUSTED": errors.Full,
    "UNAVAILABLE": errors.Unavailable,
    "DEADLINE_EXCEEDED": errors.DeadlineExceeded,
    "CANCELLED": errors.Cancelled,
}
_INVALID_FIELD, _NOT_FOUND = "INVALID_FIELD", "NOT_FOUND"


def status_of(error: ForewordError) -> grpc.Status:
    """Return the gRPC status of an error, details in its trailing metadata."""
    info = error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN)
    if isinstance(error, InvalidField | NotFound) and error.field:
        info.metadata.update(
            {"field": error.field, "seen": _cut(shown(error.seen), 500), "wanted": _cut(error.wanted, 500)}
        )
    details = [_packed(info)]
    if error.retry_after_ms is not None:
        seconds, ms = divmod(error.retry_after_ms, 1000)
        delay = duration_pb2.Duration(seconds=seconds, nanos=ms * 1_000_000)
        details.append(_packed(error_details_pb2.RetryInfo(retry_delay=delay)))
    code: int = grpc.StatusCode[error.code].value[0]
    message = _cut(error.message, MOST_MESSAGE_BYTES)
    status: grpc.Status = rpc_status.to_status(status_pb2.Status(code=code, message=message, details=details))
    return status


def error_from_rpc(error: grpc.RpcError) -> ForewordError:
    """Return the ForewordError that a failed call stands for; foreign statuses map by their code."""
    code: grpc.StatusCode = error.code()
    text = error.details() or f"gRPC status {code.name}"
    try:
        status = rpc_status.from_call(error)
    except (ValueError, DecodeError):  # details that are broken or contradict the status: it stands alone
        status = None
    info, retry_after_ms = _details(status) if status is not None else (None, None)
    if info is not None and info.reason == _INVALID_FIELD:
        field, wanted = info.metadata.get("field", ""), info.metadata.get("wanted", "")
        return InvalidField(field, Seen(info.metadata.get("seen", "")), wanted)
    if info is not None and info.reason == _NOT_FOUND and (field := info.metadata.get("field", "")):
        return NotFound.of(field, Seen(info.metadata.get("seen", "")), info.metadata.get("wanted", ""))
    kind = _BY_REASON.get(info.reason) if info is not None else None
    if kind is None:
        kind = _BY_CODE.get(code.name, errors.ProtocolFault)
    return kind(text, retry_after_ms=retry_after_ms)


class Seen(str):
    """The printed form of a value that a peer saw; prints as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _details(status: status_pb2.Status) -> tuple[error_details_pb2.ErrorInfo | None, int | None]:
    info, retry_after_ms = None, None
    for detail in status.details:
        if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
            candidate = error_details_pb2.ErrorInfo()
            if detail.Unpack(candidate) and candidate.domain == DOMAIN:
                info = candidate
        elif detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
            retry = error_details_pb2.RetryInfo()
            if detail.Unpack(retry):
                retry_after_ms = retry.retry_delay.seconds * 1000 + retry.retry_delay.nanos // 1_000_000
    return info, retry_after_ms


def _packed(message: error_details_pb2.ErrorInfo | error_details_pb2.RetryInfo) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(message)
    return packed


def _cut(text: str, most: int) -> str:
    """Return the text, or as much of it as takes `most` bytes in a header, with a mark that it goes on."""
    ends = list(accumulate(map(_header_bytes, text[: most + 1])))
    if not ends or ends[-1] <= most:
        return text
    return text[: bisect_right(ends, most - _header_bytes(_MARK))] + _MARK


def _header_bytes(character: str) -> int:
    """Return what a character takes in gRPC's percent-encoding."""
    plain = " " <= character <= "~" and character != "%"
    return 1 if plain else 3 * len(character.encode(errors="surrogatepass"))
