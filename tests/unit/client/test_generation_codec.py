"""Requests and events survive the wire; what is out of range is refused by name; noise raises nothing else."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreword.errors import ForewordError, InvalidField, ProtocolFault
from foreword.laws.parameters import Grammar, LawParameters
from foreword.protocol.activity import Activity, ChoiceActivity
from foreword.protocol.generation import (
    Chat,
    Delta,
    DeploymentInfo,
    Event,
    Finish,
    GammaChoice,
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
from foreword.v1 import generation_pb2
from foreword.wire.generation import (
    decode_abort,
    decode_abort_response,
    decode_request,
    encode_abort,
    encode_abort_response,
    encode_request,
)
from foreword.wire.generation_activity import decode_activity, encode_activity
from foreword.wire.generation_events import decode_event, encode_event
from foreword.wire.generation_info import decode_info, encode_info
from foreword.wire.limits import Limits

FIXED = settings(deadline=None, derandomize=True)

LIMITS = Limits(vocabulary=1000)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ids = st.lists(st.integers(0, 999), max_size=8).map(tuple)
counts = st.integers(0, 2**32 - 1)
laws = st.builds(
    LawParameters,
    temperature=st.floats(0, 2),
    top_k=st.none() | st.integers(1, 50),
    top_p=st.none() | st.floats(0.1, 1),
    bias=st.lists(st.tuples(st.integers(0, 999), st.integers(-8, 8).map(float)), max_size=3).map(tuple),
    stop_ids=ids,
    grammar=st.none() | st.builds(Grammar, st.just("regex"), texts),
)
gammas = st.none() | st.integers(0, 16)
speculations = st.builds(
    Speculation,
    gamma=gammas,
    gamma_min=gammas,
    gamma_max=gammas,
    rule=st.none() | st.sampled_from(Rule),
    drafter=st.none() | st.sampled_from(Drafter),
    draft=texts,
)
prompts = (
    texts
    | st.builds(TokenPrompt, ids)
    | st.builds(Chat, st.lists(st.builds(Message, texts, texts), min_size=1, max_size=3).map(tuple))
)
requests = st.builds(
    GenerateRequest,
    prompt=prompts,
    request_id=texts,
    model=texts,
    law=st.none() | laws,
    max_tokens=st.none() | st.integers(1, 2**32 - 1),
    stop=st.lists(texts.filter(bool), max_size=3).map(tuple),
    include_stop=st.booleans(),
    ignore_eos=st.booleans(),
    seed=st.none() | st.integers(0, 2**64 - 1),
    n=st.integers(1, 4),
    top_logprobs=st.none() | st.integers(0, 20),
    echo=st.booleans(),
    speculation=speculations,
    resume=ids,
    one_token_per_event=st.booleans(),
    trace=st.none() | st.builds(Trace, texts, texts),
    cache_salt=st.binary(max_size=8),
    skip_special_tokens=st.booleans(),
    prompt_logprobs=st.none() | st.integers(0, 20),
)
halves = st.integers(-40, 0).map(lambda n: n / 2)  # exact in f32


@st.composite
def log_probabilities(draw: st.DrawFn, count: int) -> LogProbabilities:
    pairs = st.tuples(st.integers(0, 999), halves)
    top = st.lists(pairs, min_size=1, max_size=draw(st.integers(1, 3))).map(tuple)
    return LogProbabilities(
        tuple(draw(st.lists(halves, min_size=count, max_size=count))),
        draw(st.just(()) | st.lists(top, min_size=count, max_size=count).map(tuple)) if count else (),
    )


@st.composite
def deltas(draw: st.DrawFn) -> Delta:
    tokens = draw(ids)
    count = len(tokens)
    logprobs = draw(log_probabilities(count))
    return Delta(
        choice=draw(st.integers(0, 3)),
        text=draw(texts),
        ids=tokens,
        sources=draw(st.just(()) | st.lists(st.sampled_from(TokenSource), min_size=count, max_size=count).map(tuple)),
        logprobs=draw(st.none() | st.just(logprobs)),
        text_ends=draw(st.just(()) | st.lists(st.integers(0, 20), min_size=count, max_size=count).map(tuple)),
    )


usages = st.builds(
    Usage,
    **{f.name: counts for f in dataclasses.fields(Usage) if not f.name.endswith("position")},
    accepted_per_position=st.lists(counts, max_size=4).map(tuple),
    offered_per_position=st.lists(counts, max_size=4).map(tuple),
)
durations = st.integers(0, 2**63)
finishes = st.builds(
    Finish,
    choice=st.integers(0, 3),
    reason=st.sampled_from(FinishReason),
    stop=st.none() | texts,
    usage=usages,
    timings=st.builds(
        Timings,
        durations,
        durations,
        durations,
        st.lists(st.builds(RoundPart, texts, st.floats(-1e9, 1e9), st.floats(0, 1e9)), max_size=2).map(tuple),
    ),
    rule=st.none() | st.sampled_from(Rule),
    seed=st.integers(0, 2**64 - 1),
)
scored = st.integers(0, 4).flatmap(
    lambda count: st.builds(Started, texts, texts, st.just(count + 1), ids, log_probabilities(count))
)
events = st.builds(Started, texts, texts, counts, ids) | scored | deltas() | finishes


@FIXED
@given(requests)
def test_requests_survive_the_wire(request: GenerateRequest) -> None:
    assert decode_request(encode_request(request), LIMITS) == request


@FIXED
@given(events)
def test_events_survive_the_wire(event: Event) -> None:
    assert decode_event(encode_event(event), LIMITS) == event


@FIXED
@given(st.binary(max_size=64))
def test_noise_raises_only_errors_of_the_tree(data: bytes) -> None:
    decoders = (
        lambda: decode_request(data, LIMITS),
        lambda: decode_event(data, LIMITS),
        lambda: decode_info(data, LIMITS),
        lambda: decode_activity(data, LIMITS),
        lambda: decode_abort(data, LIMITS),
        lambda: decode_abort_response(data),
    )
    for decode in decoders:
        try:
            decode()
        except ForewordError:
            continue


@FIXED
@given(requests, events, st.data())
def test_mutated_messages_raise_only_errors_of_the_tree(
    request: GenerateRequest, event: Event, data: st.DataObject
) -> None:
    for blob, decode in ((encode_request(request), decode_request), (encode_event(event), decode_event)):
        changed = bytearray(blob)
        for _ in range(data.draw(st.integers(1, 3))):
            if changed:
                changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
        try:
            decode(bytes(changed), LIMITS)
        except ForewordError:
            continue


@FIXED
@given(events)
def test_what_is_at_work_survives_the_wire(event: Event) -> None:
    chosen = GammaChoice(2, "kept", None, 1.0, 2.0, 0.1, 0.3, (0.5, 0.2), (1.0, 2.0, 3.0), 0.1)
    usage = event.usage if isinstance(event, Finish) else Usage()
    choice = ChoiceActivity("r", 1, 2**40, "t:1", "d:2", Rule.TOKEN, usage, chosen, (3, 0, 5))
    for activity in (Activity(2, (choice, choice)), Activity(0)):
        assert decode_activity(encode_activity(activity), LIMITS) == activity


def test_a_deployment_survives_the_wire() -> None:
    model = ModelInfo("m", "embedded", "aa", "bb", 1000, 2048, "float32", (2, 3))
    server = ServerInfo(model, "i", "127.0.0.1:1", "0.1.0", 1, 1, drafter=Drafter.MODEL, sessions=2)
    peers = (PeerInfo("a:1", up=True, info=server, round_trip_us=80, trusted=True), PeerInfo("b:2", up=False))
    info = DeploymentInfo("0.1.0", model, peers, (PeerInfo("c:3", up=False, last_error="refused"),), 4, 16, 1, 1)
    assert decode_info(encode_info(info, LIMITS), LIMITS) == info
    assert decode_info(encode_info(DeploymentInfo("0.1.0", None), LIMITS), LIMITS).model is None


def test_aborts_survive_the_wire() -> None:
    assert decode_abort(encode_abort("r-1"), LIMITS) == "r-1"
    assert decode_abort_response(encode_abort_response(found=True)) is True
    with pytest.raises(InvalidField, match="request_id"):
        decode_abort(encode_abort(""), LIMITS)


def test_token_zero_is_a_token_and_absence_is_explicit() -> None:
    request = decode_request(encode_request(GenerateRequest(TokenPrompt((0,)), seed=0, top_logprobs=0)), LIMITS)
    assert (request.prompt, request.seed, request.top_logprobs) == (TokenPrompt((0,)), 0, 0)
    for reads in ({"echo": True}, {"prompt_logprobs": 0}):
        request = decode_request(encode_request(GenerateRequest("", max_tokens=0, **reads)), LIMITS)  # type: ignore[arg-type]
        assert (request.max_tokens, request.prompt_logprobs) == (0, reads.get("prompt_logprobs"))
    request = decode_request(encode_request(GenerateRequest("")), LIMITS)
    assert (request.prompt, request.seed, request.top_logprobs, request.speculation.gamma) == ("", None, None, None)


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        (generation_pb2.GenerateRequest(), "input: got None, wanted a prompt"),
        (generation_pb2.GenerateRequest(text="x", n=0), "n: got 0, wanted a whole number from 1"),
        (generation_pb2.GenerateRequest(text="x", max_tokens=0), "max_tokens: got 0, wanted a whole number from 1"),
        (generation_pb2.GenerateRequest(text="x", stop=[""]), "stop: got '', wanted texts that are not empty"),
        (generation_pb2.GenerateRequest(messages=generation_pb2.MessageList()), "messages: got 0, wanted at least"),
        (generation_pb2.GenerateRequest(text="x", resume=b"abc"), "resume: got 3, wanted a length that is a multiple"),
        (
            generation_pb2.GenerateRequest(tokens=generation_pb2.TokenList(ids=b"\xff\xff\xff\xff")),
            "tokens: got 4294967295, wanted token ids from 0 to 999",
        ),
        (
            generation_pb2.GenerateRequest(text="x", speculation=generation_pb2.Speculation(gamma=4000)),
            "gamma: got 4000, wanted a whole number from 0 to 256",
        ),
        (
            generation_pb2.GenerateRequest(text="x", speculation=generation_pb2.Speculation(rule=9)),  # type: ignore[arg-type]
            "rule: got 9, wanted one of match",
        ),
    ],
)
def test_bad_requests_are_refused_by_field_value_and_what_is_allowed(
    message: generation_pb2.GenerateRequest, wanted: str
) -> None:
    with pytest.raises(InvalidField) as caught:
        decode_request(message.SerializeToString(), LIMITS)
    assert str(caught.value).startswith(wanted)


def test_bytes_that_cannot_be_read_are_the_callers_fault() -> None:
    for data in (b"\xff" * 9, b"\x0a\x02\xff\xfe"):  # no message; a text that is no UTF-8
        with pytest.raises(InvalidField, match=r"^request: got .*wanted those of a GenerateRequest"):
            decode_request(data, LIMITS)
        with pytest.raises(InvalidField, match=r"^abort: got"):
            decode_abort(data, LIMITS)


def test_bad_events_are_refused() -> None:
    delta = generation_pb2.Delta(text="ab", ids=bytes(8), sources=b"\x01")
    with pytest.raises(InvalidField, match=r"delta\.sources: got 1, wanted 2 values"):
        decode_event(generation_pb2.GenerateResponse(delta=delta).SerializeToString(), LIMITS)
    with pytest.raises(ProtocolFault, match="started, delta, finish"):
        decode_event(b"", LIMITS)


@pytest.mark.parametrize("field", ["request_id", "model", "prompt", "stop"])
def test_half_a_surrogate_pair_is_refused_before_it_is_sent(field: str) -> None:
    request = GenerateRequest("x")
    value = ("\ud800",) if field == "stop" else "\ud800"
    with pytest.raises(InvalidField, match="UTF-8"):
        encode_request(dataclasses.replace(request, **{field: value}))


def test_a_seed_that_does_not_fit_is_refused_before_it_is_sent() -> None:
    with pytest.raises(InvalidField, match="seed: got -1, wanted a whole number from 0 to 18446744073709551615"):
        encode_request(GenerateRequest("x", seed=-1))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"max_tokens": -1}, "max_tokens: got -1, wanted a whole number from 1 to 4294967295"),
        ({"max_tokens": 0}, "max_tokens: got 0, wanted a whole number from 1 to 4294967295"),
        ({"n": 0}, "n: got 0, wanted a whole number from 1"),
        ({"law": LawParameters(top_k=-1)}, "top_k: got -1, wanted a whole number from 1"),
        ({"law": LawParameters(top_k=0)}, "top_k: got 0, wanted a whole number from 1"),
        ({"law": LawParameters(top_k=2**32)}, "top_k: got 4294967296, wanted a whole number from 1 that fits 32 bits"),
        ({"law": LawParameters(min_tokens=-1)}, "min_tokens: got -1, wanted a whole number from 0"),
        ({"speculation": Speculation(gamma=-1)}, "gamma: got -1, wanted a whole number from 0"),
    ],
)
def test_what_does_not_fit_is_refused_before_it_is_sent_and_nothing_is_allowed_that_no_server_takes(
    fields: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidField) as refused:
        encode_request(GenerateRequest("x", **fields))
    assert refused.value.message == says
