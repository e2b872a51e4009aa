"""POST /v1/chat/completions and /v1/completions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, TypeVar

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.types import Send

from foreword.errors import ForewordError, InvalidField, NotFound
from foreword.protocol.generation import GenerateRequest
from orchestrator.front.intake import Intake
from orchestrator.http.answering import Answering, Events, renaming, write_stream, write_whole
from orchestrator.http.answers import ChatCompletion, ChatCompletionChunk, Completion
from orchestrator.http.described import two_forms
from orchestrator.http.door import Door, fingerprint
from orchestrator.http.feed import Feed, events_of
from orchestrator.http.fields import ChatRequest, CompletionRequest, Generating
from orchestrator.http.names import renamed
from orchestrator.http.requests import Call, chat_requests, check_model, completion_requests
from orchestrator.http.shape import Envelope, Wanted, wanted_of
from orchestrator.http.stream import ChatStream, CompletionStream, Stream
from orchestrator.http.whole import Whole, WholeChat, WholeCompletion
from orchestrator.trace import trace_of

B = TypeVar("B", bound=Generating)

DEADLINE = "x-envoy-expected-rq-timeout-ms"
"""How long the whole request may take, as proxies tell those behind them."""


def generation_routes(door: Door) -> APIRouter:
    """Return the endpoints that make text."""
    router = APIRouter(tags=["generation"])

    @router.post("/v1/chat/completions", responses=two_forms(ChatCompletion, ChatCompletionChunk), response_model=None)
    async def chat(body: ChatRequest, request: Request) -> Response:
        """Answer a conversation."""
        intake, call = _taken(door, body, request, prefix="chatcmpl-")
        requests = _made(chat_requests, body, call)
        return _answer(door, intake, request, body, (call.id, requests), (ChatStream, WholeChat))

    @router.post("/v1/completions", responses=two_forms(Completion, Completion), response_model=None)
    async def completions(body: CompletionRequest, request: Request) -> Response:
        """Continue a text, or several."""
        intake, call = _taken(door, body, request, prefix="cmpl-")
        requests = _made(completion_requests, body, call)
        return _answer(door, intake, request, body, (call.id, requests), (CompletionStream, WholeCompletion))

    return router


def _taken(door: Door, body: Generating, request: Request, *, prefix: str) -> tuple[Intake, Call]:
    """Return what answers a body, and what its request is besides it; raises Unavailable and NotFound."""
    intake = door.front.served()
    check_model(body.model, door.names(intake.model))
    return intake, Call(prefix + door.new_id(), door.defaults(intake), trace_of(request.headers.items()))


def _made(make: Any, body: B, call: Call) -> Sequence[GenerateRequest]:
    """Return the requests of a body; raises InvalidField with the names that the body has."""
    try:
        made: Sequence[GenerateRequest] = make(body, call)
    except InvalidField as error:
        raise renamed(error, body) from error
    return made


def _answer(
    door: Door,
    intake: Intake,
    request: Request,
    body: Generating,
    asked: tuple[str, Sequence[GenerateRequest]],
    kinds: tuple[type[Stream], type[Whole]],
) -> Answering:
    (call_id, requests), model = asked, intake.model
    envelope = Envelope(call_id, door.now_s(), body.model or door.names(model)[0], fingerprint(model))
    ends_of = partial(intake.text.text_ends, skip_special=body.skip_special_tokens is not False)
    wanted = wanted_of(body, prompts=len(requests), bytes_of=intake.text.token_bytes, ends_of=ends_of)
    limit_s = deadline_s(request.headers.get(DEADLINE, ""))
    work = partial(_write, door, body, requests, (envelope, wanted), kinds, limit_s)
    return Answering(work, patience_s=door.front.patience_s)


async def _write(
    door: Door,
    body: Generating,
    requests: Sequence[GenerateRequest],
    shape: tuple[Envelope, Wanted],
    kinds: tuple[type[Stream], type[Whole]],
    limit_s: float | None,
    send: Send,
) -> None:
    events: Events = Feed(events_of(door.front.generate, requests), limit_s=limit_s)

    def named(error: InvalidField | NotFound) -> ForewordError:
        return renamed(error, body)

    if body.stream:
        keep_alive_s = door.settings.keep_alive_s
        await write_stream(send, events, kinds[0](*shape), rename=renaming(named), keep_alive_s=keep_alive_s)
    else:
        await write_whole(send, events, kinds[1](*shape), rename=renaming(named))


def deadline_s(given: str) -> float | None:
    """Return the limit that a proxy tells, in seconds; what is no number over 0 is none, as it was not the client's."""
    if not (given.isascii() and given.isdigit() and len(given) <= 12 and int(given) > 0):
        return None
    return int(given) / 1000
