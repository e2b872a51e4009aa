"""Foreword: a distributed speculative-decoding server, and the client for it.

    from foreword import Client

    with Client() as client:
        print(client.generate("Once upon a time", max_tokens=64).text)

The names below are the public ones; they are loaded when they are first used, so that a service that imports a part of
the package does not load the client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from foreword._version import __version__

if TYPE_CHECKING:
    from foreword.client import AsyncClient, AsyncStream, Client, Stream, Tls
    from foreword.errors import (
        Cancelled,
        Corrupted,
        DeadlineExceeded,
        EngineFailure,
        ForewordError,
        Full,
        InvalidField,
        Mismatch,
        NotFound,
        ProtocolFault,
        Unauthorized,
        Unavailable,
    )
    from foreword.laws.parameters import Grammar, LawParameters
    from foreword.protocol.generation import (
        Chat,
        Choice,
        Completion,
        Delta,
        DeploymentInfo,
        Event,
        Finish,
        GenerateRequest,
        Message,
        PeerInfo,
        RoundPart,
        Speculation,
        Started,
        Timings,
        TokenPrompt,
        Usage,
    )
    from foreword.protocol.info import ModelInfo, ServerInfo
    from foreword.protocol.messages import LogProbabilities, Trace
    from foreword.protocol.words import Drafter, FinishReason, Rule, TokenSource

__all__ = [
    "AsyncClient",
    "AsyncStream",
    "Cancelled",
    "Chat",
    "Choice",
    "Client",
    "Completion",
    "Corrupted",
    "DeadlineExceeded",
    "Delta",
    "DeploymentInfo",
    "Drafter",
    "EngineFailure",
    "Event",
    "Finish",
    "FinishReason",
    "ForewordError",
    "Full",
    "GenerateRequest",
    "Grammar",
    "InvalidField",
    "LawParameters",
    "LogProbabilities",
    "Message",
    "Mismatch",
    "ModelInfo",
    "NotFound",
    "PeerInfo",
    "ProtocolFault",
    "RoundPart",
    "Rule",
    "ServerInfo",
    "Speculation",
    "Started",
    "Stream",
    "Timings",
    "Tls",
    "TokenPrompt",
    "TokenSource",
    "Trace",
    "Unauthorized",
    "Unavailable",
    "Usage",
    "__version__",
]

_HOMES = (
    "foreword.errors",
    "foreword.protocol.words",
    "foreword.protocol.info",
    "foreword.protocol.messages",
    "foreword.protocol.generation",
    "foreword.laws.parameters",
    "foreword.client",
)
"""Modules that hold the public names, the lightest first."""


def __getattr__(name: str) -> Any:
    if name in __all__:
        for home in _HOMES:
            module = import_module(home)
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module 'foreword' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
