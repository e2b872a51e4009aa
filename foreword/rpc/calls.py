"""Unary calls on raw bytes, with errors of the one tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import grpc.aio

from foreword.rpc.errors import error_from_rpc

T = TypeVar("T")


async def call_unary(
    channel: grpc.aio.Channel,
    method: str,
    *,
    decode: Callable[[bytes], T],
    request: bytes = b"",
    timeout_s: float = 5.0,
) -> T:
    """Call `method` once and return the decoded response; raises ForewordError, DeadlineExceeded after `timeout_s`."""
    call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
    try:
        response = await call(request, timeout=timeout_s)
    except grpc.aio.AioRpcError as error:
        raise error_from_rpc(error) from error
    return decode(response)
