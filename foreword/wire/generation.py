"""Codec of what clients send: requests for text, and aborts."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from foreword.errors import InvalidField, ProtocolFault
from foreword.protocol.generation import Chat, GenerateRequest, Prompt, Speculation, TokenPrompt
from foreword.protocol.generation import Message as Turn
from foreword.v1 import generation_pb2
from foreword.wire.bounds import check_entries, check_nested
from foreword.wire.common import (
    DRAFTERS,
    RULES,
    fill_trace,
    fit_count,
    fit_text,
    read_count,
    read_enum,
    read_text,
    read_trace,
)
from foreword.wire.law import fill_law, read_law
from foreword.wire.limits import Limits
from foreword.wire.methods import GENERATION_SERVICE
from foreword.wire.packing import pack_u32, unpack_ids

GENERATE = f"/{GENERATION_SERVICE}/Generate"
ABORT = f"/{GENERATION_SERVICE}/Abort"
GENERATION_GET_INFO = f"/{GENERATION_SERVICE}/GetInfo"

_U32, _U64 = 2**32 - 1, 2**64 - 1
_CHARACTERS_PER_TOKEN = 16
"""No text has more characters per token on average; it bounds texts by the limit on tokens."""
_STOPS = 256
_STOP_CHARACTERS = 4_096
_TURNS = 16_384
_ROLE = 64
_SALT_BYTES = 256
_CHOICES = 128
_FIELDS = 1_024
"""Fields of a request at its top level, counted before it is parsed: each stop text is one."""
_MESSAGES_FIELD = generation_pb2.GenerateRequest.MESSAGES_FIELD_NUMBER


def encode_request(value: GenerateRequest) -> bytes:
    """Return `value` as the bytes of GenerateRequest; raises InvalidField for what does not fit its field."""
    m = generation_pb2.GenerateRequest()
    m.request_id, m.model = fit_text("request_id", value.request_id), fit_text("model", value.model)
    _fill_prompt(m, value.prompt)
    if value.law is not None:
        m.law.SetInParent()
        fill_law(m.law, value.law)
    for field, least, most in (("max_tokens", _least_tokens(value), _U32), ("seed", 0, _U64)):
        if getattr(value, field) is not None:
            setattr(m, field, read_count(field, getattr(value, field), least=least, most=most))
    for field, least in (("n", 1), ("top_logprobs", 0), ("prompt_logprobs", 0)):
        if getattr(value, field) is not None:
            setattr(m, field, fit_count(field, getattr(value, field), least=least))
    m.stop.extend(fit_text("stop", stop) for stop in value.stop)
    m.include_stop, m.ignore_eos, m.echo = value.include_stop, value.ignore_eos, value.echo
    m.one_token_per_event, m.skip_special_tokens = value.one_token_per_event, value.skip_special_tokens
    _fill_speculation(m, value.speculation)
    m.resume = pack_u32("resume", value.resume)
    if value.trace is not None:
        m.trace.SetInParent()
        fill_trace(m.trace, value.trace)
    m.cache_salt = value.cache_salt
    return m.SerializeToString()


def decode_request(data: bytes, limits: Limits) -> GenerateRequest:
    """Return the request in `data`; raises InvalidField for the first value that is out of its range."""
    check_entries(data, _FIELDS, field="request", what="fields")
    check_nested(data, _MESSAGES_FIELD, _TURNS, field="messages", what="turns")
    try:
        m = generation_pb2.GenerateRequest.FromString(data)
    except DecodeError as error:
        raise _unreadable("request", data, "GenerateRequest", error) from error
    if len(m.stop) > _STOPS:
        raise InvalidField("stop", len(m.stop), f"at most {_STOPS} texts")
    characters = sum(map(len, m.stop))
    if characters > _STOP_CHARACTERS:
        raise InvalidField("stop", f"{characters} characters", f"at most {_STOP_CHARACTERS} in all texts together")
    if len(m.cache_salt) > _SALT_BYTES:
        raise InvalidField("cache_salt", len(m.cache_salt), f"at most {_SALT_BYTES} bytes")
    return GenerateRequest(
        prompt=_read_prompt(m, limits),
        request_id=read_text("request_id", m.request_id, limits.text),
        model=read_text("model", m.model, limits.text),
        law=read_law(m.law, limits) if m.HasField("law") else None,
        max_tokens=_read_max_tokens(m) if m.HasField("max_tokens") else None,
        stop=tuple(_read_stop(stop, limits) for stop in m.stop),
        include_stop=m.include_stop,
        ignore_eos=m.ignore_eos,
        seed=m.seed if m.HasField("seed") else None,
        n=read_count("n", m.n, least=1, most=_CHOICES) if m.HasField("n") else 1,
        top_logprobs=_read_top_logprobs("top_logprobs", m, limits),
        echo=m.echo,
        speculation=_read_speculation(m.speculation, limits),
        resume=unpack_ids("resume", m.resume, most=limits.tokens, vocabulary=limits.vocabulary),
        one_token_per_event=m.one_token_per_event,
        trace=read_trace(m.trace, limits) if m.HasField("trace") else None,
        cache_salt=m.cache_salt,
        skip_special_tokens=m.skip_special_tokens if m.HasField("skip_special_tokens") else True,
        prompt_logprobs=_read_top_logprobs("prompt_logprobs", m, limits),
    )


def encode_abort(request_id: str) -> bytes:
    """Return the bytes of AbortRequest."""
    return generation_pb2.AbortRequest(request_id=fit_text("request_id", request_id)).SerializeToString()


def decode_abort(data: bytes, limits: Limits) -> str:
    """Return the request id in `data`; raises InvalidField if it is empty or too long."""
    try:
        request_id = generation_pb2.AbortRequest.FromString(data).request_id
    except DecodeError as error:
        raise _unreadable("abort", data, "AbortRequest", error) from error
    if not request_id:
        raise InvalidField("request_id", request_id, "the id of a request")
    return read_text("request_id", request_id, limits.text)


def encode_abort_response(*, found: bool) -> bytes:
    """Return the bytes of AbortResponse."""
    return generation_pb2.AbortResponse(found=found).SerializeToString()


def decode_abort_response(data: bytes) -> bool:
    """Return whether the request was running."""
    try:
        return generation_pb2.AbortResponse.FromString(data).found
    except DecodeError as error:
        raise ProtocolFault(f"abort: got bytes that are no AbortResponse ({error})") from error


def _fill_prompt(m: generation_pb2.GenerateRequest, prompt: Prompt) -> None:
    match prompt:
        case str():
            m.text = fit_text("text", prompt)
        case Chat():
            m.messages.SetInParent()
            for turn in prompt.messages:
                m.messages.messages.add(role=fit_text("role", turn.role), content=fit_text("content", turn.content))
        case TokenPrompt():
            m.tokens.SetInParent()
            m.tokens.ids = pack_u32("tokens", prompt.ids)


def _read_prompt(m: generation_pb2.GenerateRequest, limits: Limits) -> Prompt:
    most = limits.tokens * _CHARACTERS_PER_TOKEN
    which = m.WhichOneof("input")
    if which == "text":
        return read_text("text", m.text, most)
    if which == "messages":
        if not m.messages.messages:
            raise InvalidField("messages", 0, "at least one message")
        turns = tuple(Turn(read_text("role", turn.role, _ROLE), turn.content) for turn in m.messages.messages)
        read_count("messages", sum(len(turn.content) for turn in turns), most=most)
        return Chat(turns)
    if which == "tokens":
        return TokenPrompt(unpack_ids("tokens", m.tokens.ids, most=limits.tokens, vocabulary=limits.vocabulary))
    raise InvalidField("input", None, "a prompt: text, messages or tokens")


def _fill_speculation(m: generation_pb2.GenerateRequest, value: Speculation) -> None:
    if value == Speculation():
        return
    m.speculation.SetInParent()
    for field in ("gamma", "gamma_min", "gamma_max"):
        if getattr(value, field) is not None:
            setattr(m.speculation, field, fit_count(field, getattr(value, field)))
    if value.rule is not None:
        m.speculation.rule = int(value.rule)  # type: ignore[assignment]
    if value.drafter is not None:
        m.speculation.drafter = int(value.drafter)  # type: ignore[assignment]
    m.speculation.draft = fit_text("draft", value.draft)


def _read_speculation(m: generation_pb2.Speculation, limits: Limits) -> Speculation:
    def gamma(field: str) -> int | None:
        return read_count(field, getattr(m, field), most=limits.gamma) if m.HasField(field) else None

    return Speculation(
        gamma=gamma("gamma"),
        gamma_min=gamma("gamma_min"),
        gamma_max=gamma("gamma_max"),
        rule=read_enum("rule", RULES, m.rule) if m.HasField("rule") else None,
        drafter=read_enum("drafter", DRAFTERS, m.drafter) if m.HasField("drafter") else None,
        draft=read_text("draft", m.draft, limits.text),
    )


def _read_stop(stop: str, limits: Limits) -> str:
    if not stop:
        raise InvalidField("stop", stop, "texts that are not empty")
    return read_text("stop", stop, limits.text)


def _read_max_tokens(m: generation_pb2.GenerateRequest) -> int:
    return read_count("max_tokens", m.max_tokens, least=_least_tokens(m), most=_U32)


def _least_tokens(value: GenerateRequest | generation_pb2.GenerateRequest) -> int:
    """Return how many tokens may be asked for at least: none where the prompt is to be told."""
    if isinstance(value, GenerateRequest):
        return 0 if value.echo or value.prompt_logprobs is not None else 1
    return 0 if value.echo or value.HasField("prompt_logprobs") else 1


def _read_top_logprobs(field: str, m: generation_pb2.GenerateRequest, limits: Limits) -> int | None:
    return read_count(field, getattr(m, field), most=limits.top_logprobs) if m.HasField(field) else None


def _unreadable(field: str, data: bytes, kind: str, error: DecodeError) -> InvalidField:
    return InvalidField(field, f"{len(data)} bytes ({error})", f"those of a {kind}, its texts in UTF-8")
