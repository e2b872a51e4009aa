"""Two callers of one server, which ask for the same text and note when its tokens come."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from http.client import HTTPConnection

from foreword.client import Client
from foreword.errors import ProtocolFault
from foreword.protocol.generation import Delta, TokenPrompt


@dataclass(frozen=True, slots=True)
class Answer:
    """When an answer came, in seconds from the call, by the caller's clock."""

    first_s: float
    last_s: float
    tokens: int


def by_grpc(client: Client, prompt: tuple[int, ...], tokens: int) -> Answer:
    """Ask over gRPC, by the SDK."""
    began, times = time.perf_counter(), list[float]()
    with client.stream(TokenPrompt(prompt), max_tokens=tokens, temperature=0.0, one_token_per_event=True) as events:
        for event in events:
            if isinstance(event, Delta) and event.ids:
                times.append(time.perf_counter() - began)
    return _answer(times)


def by_http(connection: HTTPConnection, prompt: tuple[int, ...], tokens: int) -> Answer:
    """Ask over HTTP, on a connection that is kept, by the standard library."""
    body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "stream": True, "one_token_per_event": True}
    began, times = time.perf_counter(), list[float]()
    connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
    answer = connection.getresponse()
    if answer.status != 200:
        raise ProtocolFault(f"HTTP: got {answer.status} {answer.read()[:200]!r}, wanted a stream")
    while line := answer.readline():
        if line.startswith(b"data: {") and json.loads(line[6:])["choices"][0]["text"]:
            times.append(time.perf_counter() - began)
    return _answer(times)


def _answer(times: list[float]) -> Answer:
    if len(times) < 2:
        raise ProtocolFault(f"answer: got {len(times)} tokens, wanted two or more")
    return Answer(times[0], times[-1], len(times))
