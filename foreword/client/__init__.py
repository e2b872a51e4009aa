"""The client SDK: asynchronous, with a thin synchronous façade; it needs grpcio, protobuf, numpy and pydantic only."""

from foreword.client.aio import DEFAULT_ADDRESS, AsyncClient
from foreword.client.collect import Collector, collect
from foreword.client.endpoints import Tls
from foreword.client.request import PromptLike, RequestFields, build_request
from foreword.client.stream import AsyncStream
from foreword.client.sync import Client, Stream

__all__ = [
    "DEFAULT_ADDRESS",
    "AsyncClient",
    "AsyncStream",
    "Client",
    "Collector",
    "PromptLike",
    "RequestFields",
    "Stream",
    "Tls",
    "build_request",
    "collect",
]
