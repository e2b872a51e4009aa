"""Events become answers, whole and in chunks, and both tell the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from foreword.errors import ProtocolFault
from foreword.protocol.generation import Delta, Event, Finish, GammaChoice, RoundPart, Started, Timings, Usage
from foreword.protocol.messages import LogProbabilities
from foreword.protocol.words import FinishReason, Rule, TokenSource
from orchestrator.http.fields import ChatRequest, CompletionRequest
from orchestrator.http.shape import Envelope, Wanted, wanted_of
from orchestrator.http.stream import ChatStream, CompletionStream, Stream
from orchestrator.http.whole import Whole, WholeChat, WholeCompletion

ENVELOPE = Envelope("id", 5, "m", "fp")
PIECES = {1: b" one", 2: b" \xc3", 3: b"\xa9"}
SOURCES = (TokenSource.TARGET, TokenSource.DRAFT, TokenSource.LOOKUP)
LOGPROBS = LogProbabilities((-0.5, -1.5, -9999.0), (((1, -0.5), (2, -1.0)), ((1, -0.25),), ()))
DELTA = Delta(0, " one \u00e9", (1, 2, 3), SOURCES, LOGPROBS, (4, 4, 6))
USAGE = Usage(prompt_tokens=3, output_tokens=3, cached_tokens=2, drafted_tokens=5, accepted_tokens=2, verifications=2)
TIMINGS = Timings(
    queue_us=1_000,
    first_token_us=20_000,
    total_us=40_500,
    parts=(RoundPart("network", 1_500.0, 3_000.0),),
    gamma=GammaChoice(4, "best", survival=(0.5,), tokens_per_s=(1.0, 2.0)),
    results_by_gamma=(1, 0, 2),
)


def finish(choice: int = 0, *, reason: FinishReason = FinishReason.STOP, stop: str | None = None) -> Finish:
    return Finish(choice, reason, stop, USAGE, TIMINGS, Rule.MATCH, 7)


def wanted(**changes: Any) -> Wanted:
    return Wanted(**{"bytes_of": PIECES.__getitem__, **changes})


def whole(kind: type[Whole], events: list[Event], **changes: Any) -> dict[str, Any]:
    made = kind(ENVELOPE, wanted(**changes))
    for event in events:
        made.take(0, event)
    return json.loads(made.answer().json_bytes())


def chunks(kind: type[Stream], events: list[Event], **changes: Any) -> list[dict[str, Any]]:
    made = kind(ENVELOPE, wanted(**changes))
    parts = [part for event in events for part in made.take(0, event)] + made.last()
    return [json.loads(part.json_bytes()) for part in parts]


STARTED = Started("id", "m", 3, (7, 8, 9))


def test_a_chat_as_a_whole() -> None:
    answer = whole(WholeChat, [STARTED, DELTA, finish()])
    assert answer["object"] == "chat.completion"
    assert (answer["id"], answer["created"], answer["model"], answer["system_fingerprint"]) == ("id", 5, "m", "fp")
    (choice,) = answer["choices"]
    assert choice["message"] == {"role": "assistant", "content": " one \u00e9", "refusal": None}
    assert (choice["index"], choice["finish_reason"], choice["logprobs"]) == (0, "stop", None)
    assert {"token_ids", "token_sources", "prompt_token_ids"}.isdisjoint(choice)
    assert answer["usage"] == {
        "prompt_tokens": 3,
        "completion_tokens": 3,
        "total_tokens": 6,
        "prompt_tokens_details": {"cached_tokens": 2},
        "completion_tokens_details": {"accepted_prediction_tokens": 2, "rejected_prediction_tokens": 3},
    }


def test_timings_tell_of_the_draft_and_of_the_parts_of_a_round() -> None:
    timings = whole(WholeChat, [STARTED, DELTA, finish()])["timings"]
    assert (timings["draft_n"], timings["draft_n_accepted"], timings["predicted_n"]) == (5, 2, 3)
    assert (timings["first_token_ms"], timings["total_ms"], timings["predicted_ms"]) == (20.0, 40.5, 20.5)
    assert timings["predicted_per_second"] == pytest.approx(2 / 0.0205)
    (choice,) = timings["choices"]
    assert (choice["acceptance_length"], choice["rule"], choice["seed"]) == (2.0, "match", 7)
    assert choice["parts"] == [{"name": "network", "p50_ms": 1.5, "sum_ms": 3.0}]
    assert (choice["gamma"]["gamma"], choice["gamma"]["why"]) == (4, "best")
    assert choice["results_by_gamma"] == [1, 0, 2]


def test_log_probabilities_of_chats() -> None:
    (choice,) = whole(WholeChat, [STARTED, DELTA, finish()], logprobs=True)["choices"]
    first, second, third = choice["logprobs"]["content"]
    assert first == {
        "token": " one",
        "logprob": -0.5,
        "bytes": list(b" one"),
        "top_logprobs": [
            {"token": " one", "logprob": -0.5, "bytes": list(b" one")},
            {"token": " \ufffd", "logprob": -1.0, "bytes": list(b" \xc3")},
        ],
    }
    assert bytes(second["bytes"] + third["bytes"]).decode() == " \u00e9"
    assert (third["logprob"], third["top_logprobs"]) == (-9999.0, [])


def test_log_probabilities_of_completions_know_their_place_in_the_text() -> None:
    events = [STARTED, Delta(0, "ab", (1,), SOURCES[:1], LogProbabilities((-2.0,)), (2,)), DELTA, finish()]
    (choice,) = whole(WholeCompletion, events, logprobs=True)["choices"]
    logprobs = choice["logprobs"]
    assert logprobs["tokens"] == [" one", " one", " \ufffd", "\ufffd"]
    assert logprobs["text_offset"] == [0, 2, 6, 6]
    assert logprobs["token_logprobs"] == [-2.0, -0.5, -1.5, -9999.0]
    assert logprobs["top_logprobs"][2] == {" one": -0.25, " \ufffd": -1.5}


def test_what_else_is_asked_for_is_told() -> None:
    events = [STARTED, Delta(0, "the prompt"), DELTA, finish()]
    (choice,) = whole(WholeChat, events, ids=True, sources=True)["choices"]
    assert choice["message"]["content"] == " one \u00e9"
    assert (choice["prompt_token_ids"], choice["token_ids"]) == ([7, 8, 9], [1, 2, 3])
    assert choice["token_sources"] == ["target", "draft", "lookup"]


def test_an_echo_is_text_of_a_completion() -> None:
    events = [STARTED, Delta(0, "the prompt"), DELTA, finish()]
    (choice,) = whole(WholeCompletion, events, echo=True, ids=True)["choices"]
    assert choice["text"] == "the prompt one \u00e9"
    assert choice["token_ids"] == [1, 2, 3]


@pytest.mark.parametrize(
    ("reason", "stop", "word", "cause"),
    [
        (FinishReason.STOP, "END", "stop", "END"),
        (FinishReason.STOP, "5", "stop", 5),
        (FinishReason.STOP, "0", "stop", 0),
        (FinishReason.STOP, "6", "stop", None),
        (FinishReason.LENGTH, None, "length", None),
        (FinishReason.ABORT, None, "abort", None),
    ],
)
def test_how_it_ended(reason: FinishReason, stop: str | None, word: str, cause: Any) -> None:
    asked = {"stop": frozenset({"END"}), "stop_ids": frozenset({0, 5})}
    (choice,) = whole(WholeChat, [STARTED, finish(reason=reason, stop=stop)], **asked)["choices"]
    assert (choice["finish_reason"], choice["stop_reason"]) == (word, cause)


def test_chunks_of_a_chat_begin_with_the_role_and_end_with_a_reason() -> None:
    first, text, last = chunks(ChatStream, [STARTED, DELTA, finish()])
    assert {chunk["object"] for chunk in (first, text, last)} == {"chat.completion.chunk"}
    assert first["choices"] == [
        {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
    ]
    assert text["choices"][0]["delta"] == {"content": " one \u00e9"}
    assert (last["choices"][0]["delta"], last["choices"][0]["finish_reason"]) == ({}, "stop")
    assert last["timings"]["draft_n"] == 5
    assert "usage" not in first
    assert "usage" not in last


def test_usage_is_a_chunk_of_its_own_when_it_is_asked_for() -> None:
    *others, last = chunks(ChatStream, [STARTED, DELTA, finish()], usage=True)
    assert all(chunk["usage"] is None for chunk in others)
    assert (last["choices"], last["usage"]["completion_tokens"]) == ([], 3)


def test_counts_so_far_come_with_every_chunk_when_they_are_asked_for() -> None:
    found = chunks(ChatStream, [STARTED, DELTA, finish()], running_usage=True)
    assert [chunk["usage"]["completion_tokens"] for chunk in found] == [0, 3, 3, 3]
    assert [chunk["usage"]["prompt_tokens"] for chunk in found] == [3, 3, 3, 3]


@pytest.mark.parametrize(("stream", "one"), [(ChatStream, WholeChat), (CompletionStream, WholeCompletion)])
def test_chunks_tell_what_the_whole_does(stream: type[Stream], one: type[Whole]) -> None:
    deltas = [Delta(0, "ab", (1,), SOURCES[:1], LogProbabilities((-2.0,), (((2, -1.0),),)), (2,)), DELTA]
    events: list[Event] = [STARTED, Delta(0, "the prompt"), *deltas, finish()]
    asked = {"ids": True, "sources": True, "logprobs": True}
    (choice,) = whole(one, events, **asked)["choices"]
    pieces = [chunk["choices"][0] for chunk in chunks(stream, events, **asked)]
    text = choice["text"] if one is WholeCompletion else choice["message"]["content"]
    assert "".join(p.get("text", p.get("delta", {}).get("content", "")) for p in pieces) == text
    for name in ("token_ids", "token_sources", "prompt_token_ids"):
        assert [value for piece in pieces for value in piece.get(name, ())] == choice[name]
    for name, values in choice["logprobs"].items():
        if values is not None:
            assert [value for p in pieces if p["logprobs"] for value in p["logprobs"][name]] == values


def test_choices_of_several_prompts_are_numbered_through() -> None:
    made, streamed = (
        WholeCompletion(ENVELOPE, wanted(choices=2, prompts=2)),
        CompletionStream(ENVELOPE, wanted(choices=2)),
    )
    seen = []
    for prompt in (1, 0):
        for event in (STARTED, Delta(1, f"{prompt}b", (1,)), finish(1), Delta(0, f"{prompt}a", (1,)), finish(0)):
            made.take(prompt, event)
            seen += streamed.take(prompt, event)
    answer = json.loads(made.answer().json_bytes())
    assert [(c["index"], c["text"]) for c in answer["choices"]] == [(0, "0a"), (1, "0b"), (2, "1a"), (3, "1b")]
    assert (answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]) == (6, 12)
    assert answer["usage"]["prompt_tokens_details"] == {"cached_tokens": 4}
    assert [one["index"] for one in answer["timings"]["choices"]] == [0, 1, 2, 3]
    assert [json.loads(part.json_bytes())["choices"][0]["index"] for part in seen] == [3, 3, 2, 2, 1, 1, 0, 0]


def test_an_answer_without_its_end_is_none() -> None:
    made = WholeChat(ENVELOPE, wanted(choices=2))
    for event in (STARTED, finish(0)):
        made.take(0, event)
    with pytest.raises(ProtocolFault, match="got the end of 1, wanted that of 2"):
        made.answer()


def test_what_is_asked_for_comes_from_the_body() -> None:
    body = ChatRequest.model_validate(
        {
            "messages": [],
            "n": 2,
            "logprobs": True,
            "stream": True,
            "stream_options": {"include_usage": True},
            "stop": "x",
            "stop_token_ids": [4],
            "return_token_ids": True,
            "return_token_sources": True,
        }
    )
    asked = wanted_of(body, prompts=1, bytes_of=PIECES.__getitem__)
    assert (asked.choices, asked.logprobs, asked.usage, asked.running_usage) == (2, True, True, False)
    assert (asked.stop, asked.stop_ids, asked.hides_echo) == ({"x"}, {4}, True)
    echo = CompletionRequest.model_validate({"prompt": "", "echo": True, "return_token_ids": True, "logprobs": 0})
    asked = wanted_of(echo, prompts=1, bytes_of=PIECES.__getitem__)
    assert (asked.echo, asked.hides_echo, asked.logprobs) == (True, False, True)
