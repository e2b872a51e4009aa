"""Public values: provenance of text, acceptance, collected events, and the names that users import."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import foreword
from foreword.client.collect import collect
from foreword.errors import ProtocolFault
from foreword.protocol.generation import Delta, Finish, Started, Usage
from foreword.protocol.messages import LogProbabilities
from foreword.protocol.words import FinishReason, TokenSource

FIXED = settings(deadline=None, derandomize=True)

DRAFT, TARGET = TokenSource.DRAFT, TokenSource.TARGET


@pytest.mark.parametrize(
    ("text", "ends", "sources", "pieces"),
    [
        ("ab cd", (2, 5), (DRAFT, TARGET), (("ab", DRAFT), (" cd", TARGET))),
        ("abc", (1, 2, 3), (DRAFT, DRAFT, TARGET), (("ab", DRAFT), ("c", TARGET))),
        ("é!", (0, 1, 2), (DRAFT, TARGET, TARGET), (("é!", TARGET),)),  # two tokens made one character
        ("ab held", (2,), (DRAFT,), (("ab held", DRAFT),)),  # text that was held back comes with the last token
        ("ab", (), (), (("ab", TARGET),)),
        ("", (0,), (DRAFT,), ()),
    ],
)
def test_pieces_say_who_wrote_what(
    text: str, ends: tuple[int, ...], sources: tuple[TokenSource, ...], pieces: tuple[tuple[str, TokenSource], ...]
) -> None:
    assert Delta(0, text, tuple(range(len(ends))), sources, text_ends=ends).pieces() == pieces


@FIXED
@given(st.text(max_size=12), st.lists(st.tuples(st.integers(0, 15), st.sampled_from(TokenSource)), max_size=6))
def test_pieces_always_make_the_text(text: str, tokens: list[tuple[int, TokenSource]]) -> None:
    ends = tuple(end for end, _ in tokens)
    delta = Delta(0, text, tuple(range(len(tokens))), tuple(s for _, s in tokens), text_ends=ends)
    pieces = delta.pieces()
    assert "".join(piece for piece, _ in pieces) == text
    assert all(a[1] is not b[1] for a, b in itertools.pairwise(pieces))


def test_acceptance_counts_the_targets_own_token() -> None:
    usage = Usage(drafted_tokens=40, accepted_tokens=25, verifications=10)
    assert (usage.acceptance_length, usage.acceptance_rate) == (3.5, 0.625)
    assert Usage(verifications=3, drafted_tokens=12).acceptance_length == 1.0
    assert (Usage(plain_steps=9).acceptance_length, Usage().acceptance_rate) == (None, None)


def test_choices_are_collected_apart_and_in_order() -> None:
    def logprobs(value: float) -> LogProbabilities:
        return LogProbabilities((value,), (((1, value),),))

    completion = collect(
        [
            Started("r", "m", 3),
            Delta(1, "B", (10,), (TARGET,), logprobs(-1.0)),
            Delta(0, "a", (20,), (DRAFT,), logprobs(-2.0)),
            Delta(0, "b", (21,), (TARGET,), logprobs(-3.0)),
            Finish(1, FinishReason.LENGTH, usage=Usage(output_tokens=1)),
            Finish(0, FinishReason.STOP, stop="x"),
        ]
    )
    first, second = completion.choices
    assert (first.index, first.text, first.ids, first.sources) == (0, "ab", (20, 21), (DRAFT, TARGET))
    assert first.logprobs == LogProbabilities((-2.0, -3.0), (((1, -2.0),), ((1, -3.0),)))
    assert (second.index, second.text, second.finish.reason) == (1, "B", FinishReason.LENGTH)
    assert (completion.text, completion.ids, completion.finish.stop) == ("ab", (20, 21), "x")
    assert second.usage.output_tokens == 1
    assert completion.started.request_id == "r"


def test_an_empty_output_is_an_output() -> None:
    completion = collect([Started("r", "m", 3), Finish(0, FinishReason.STOP)])
    assert (completion.text, completion.ids, completion.choices[0].logprobs) == ("", (), None)


@pytest.mark.parametrize(
    ("events", "seen"),
    [
        ([], "no start or no end"),
        ([Started("r", "m", 1), Delta(0, "cut")], r"choices without an end: \[0\]"),
        ([Started("r", "m", 1), Delta(1, "x"), Finish(0, FinishReason.STOP)], r"choices without an end: \[1\]"),
    ],
)
def test_a_stream_that_was_cut_is_no_completion(events: list[foreword.Event], seen: str) -> None:
    with pytest.raises(ProtocolFault, match=seen):
        collect(events)


def test_the_public_names_are_there_and_listed() -> None:
    assert sorted(foreword.__all__) == sorted(set(foreword.__all__))
    for name in foreword.__all__:
        assert getattr(foreword, name) is not None
        assert name in dir(foreword)
    assert foreword.Client is not foreword.AsyncClient
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = foreword.nothing


def test_importing_the_package_loads_no_grpc() -> None:
    code = "import sys, foreword, foreword.errors; sys.exit('grpc' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
