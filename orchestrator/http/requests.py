"""From bodies to requests of the front: pure, and held to the bounds that gRPC's codec has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from foreword.errors import InvalidField, NotFound
from foreword.laws.parameters import LawParameters
from foreword.protocol.generation import Chat, GenerateRequest, Message, Prompt, TokenPrompt
from foreword.protocol.messages import Trace
from foreword.wire.generation import decode_request, encode_request
from foreword.wire.limits import Limits
from orchestrator.http.fields import ChatRequest, ChatTurn, CompletionRequest, Generating
from orchestrator.http.law import law_of, speculation_of

MOST_PROMPTS: Final = 1_024
"""Prompts of one request."""
_COMPLETION_TOKENS: Final = 16
"""Output of a completion that does not say, as OpenAI documents it."""
_OLDER_ROLES: Final = {"developer": "system"}
"""Roles that templates know by another name."""


@dataclass(frozen=True, slots=True)
class Call:
    """What a request is besides its body."""

    id: str
    defaults: LawParameters
    trace: Trace | None = None


def check_model(asked: str | None, names: Iterable[str]) -> None:
    """Raise NotFound for a model that goes by none of the names."""
    known = tuple(names)
    if asked and asked not in known:
        raise NotFound.of("model", asked, f"one that is served: {', '.join(known)}")


def chat_requests(body: ChatRequest, call: Call) -> tuple[GenerateRequest, ...]:
    """Return the request that a chat's body makes; raises InvalidField."""
    most, newer = body.max_tokens, body.max_completion_tokens
    if most is not None and newer is not None and most != newer:
        raise InvalidField("max_completion_tokens", newer, f"what max_tokens has, {most}, or one of the two")
    if body.top_logprobs is not None and not body.logprobs:
        raise InvalidField("top_logprobs", body.top_logprobs, "logprobs true beside it")
    top = (body.top_logprobs or 0) if body.logprobs else None
    return (_request(body, call, chat_of(body.messages), max_tokens=newer if most is None else most, top=top),)


def completion_requests(body: CompletionRequest, call: Call) -> tuple[GenerateRequest, ...]:
    """Return a request for each prompt of a completion's body; raises InvalidField."""
    most = _COMPLETION_TOKENS if body.max_tokens is None else body.max_tokens
    found = prompts_of(body)
    requests = []
    for place, prompt in enumerate(found):
        own = call if len(found) == 1 else Call(f"{call.id}-{place}", call.defaults, call.trace)
        requests.append(_request(body, own, prompt, max_tokens=most, top=body.logprobs, echo=bool(body.echo)))
    return tuple(requests)


def chat_of(turns: Iterable[ChatTurn]) -> Chat:
    """Return a conversation; parts of a message are put together."""
    return Chat(
        tuple(
            Message(_OLDER_ROLES.get(turn.role, turn.role), _content(turn, place)) for place, turn in enumerate(turns)
        )
    )


def prompts_of(body: CompletionRequest) -> tuple[Prompt, ...]:
    """Return the prompts of a completion; raises InvalidField for none and for too many."""
    given = body.prompt
    if isinstance(given, str):
        return (given,)
    if not given:
        raise InvalidField("prompt", [], "a text, token ids, or a list of either that is not empty")
    if isinstance(given[0], int):
        return (TokenPrompt(tuple(given)),)
    if len(given) > MOST_PROMPTS:
        raise InvalidField("prompt", f"{len(given)} prompts", f"at most {MOST_PROMPTS}")
    return tuple(one if isinstance(one, str) else TokenPrompt(tuple(one)) for one in given)


def _request(
    body: Generating, call: Call, prompt: Prompt, *, max_tokens: int | None, top: int | None, echo: bool = False
) -> GenerateRequest:
    n = 1 if body.n is None else body.n
    if body.best_of not in (None, n):
        raise InvalidField("best_of", body.best_of, f"n, {n}: nothing is drawn that is not returned")
    if body.stream_options is not None and not body.stream:
        raise InvalidField("stream_options", body.stream_options.model_dump(exclude_none=True), "stream true beside it")
    request = GenerateRequest(
        prompt=prompt,
        request_id=call.id,
        prompt_logprobs=top if echo else None,
        law=law_of(body, call.defaults),
        max_tokens=max_tokens,
        stop=(body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ()),
        include_stop=bool(body.include_stop_str_in_output),
        ignore_eos=bool(body.ignore_eos),
        seed=body.seed,
        n=n,
        top_logprobs=top,
        echo=echo or bool(body.return_token_ids),  # the ids of a prompt come with its echo
        speculation=speculation_of(body.speculative),
        one_token_per_event=bool(body.one_token_per_event),
        trace=call.trace,
        cache_salt=(body.cache_salt or "").encode(errors="surrogatepass"),
        skip_special_tokens=body.skip_special_tokens is not False,
    )
    # One set of bounds for both ways in: what gRPC would not carry is refused here by the same words.
    return decode_request(encode_request(request), Limits())


def _content(turn: ChatTurn, place: int) -> str:
    if turn.content is None and turn.role != "assistant":
        raise InvalidField(f"messages[{place}].content", None, "a text or a list of its parts")
    content = turn.content or ""
    return content if isinstance(content, str) else "".join(part.text for part in content)
