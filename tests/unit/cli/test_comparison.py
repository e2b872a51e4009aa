"""With and without a draft: differences are found, explained by near-ties only, and summed up."""

from __future__ import annotations

from pathlib import Path

import pytest

from foreword.cli.comparison import Outcome, first_difference, totals
from foreword.cli.demo_prompts import DemoPrompt, built_in, read_prompts
from foreword.errors import InvalidField
from foreword.protocol.generation import Chat, Choice, Finish, Message, Timings, TokenPrompt, Usage
from foreword.protocol.words import FinishReason

PROMPT = DemoPrompt("p", "chat", "x")


def choice(ids: tuple[int, ...], us: int, **usage: int) -> Choice:
    finish = Finish(0, FinishReason.LENGTH, usage=Usage(output_tokens=len(ids), **usage), timings=Timings(0, 0, us))
    return Choice(0, "text", ids, (), None, finish)


def outcome(plain: tuple[int, ...], drafted: tuple[int, ...], margin: float | None = None) -> Outcome:
    fast = choice(drafted, 500_000, verifications=2, accepted_tokens=3, drafted_tokens=8)
    return Outcome(PROMPT, choice(plain, 1_000_000), fast, 1e-3, margin)


def test_the_same_ids_are_identical() -> None:
    same = outcome((1, 2, 3), (1, 2, 3))
    assert (same.identical, same.explained, same.first_difference, same.speedup) == (True, False, None, 2.0)
    assert same.json() == {
        "id": "p",
        "category": "chat",
        "identical": True,
        "explained": False,
        "first_difference": None,
        "margin": None,
        "tokens": 3,
        "acceptance_length": 2.5,
        "plain_tok_s": 2.0,
        "spec_tok_s": 4.0,
        "speedup": 2.0,
        "text": "text",
        "usage": same.drafted.usage,
    }


@pytest.mark.parametrize(
    ("margin", "explained"), [(0.0, True), (1e-3, True), (1.1e-3, False), (5.0, False), (None, False)]
)
def test_only_a_near_tie_explains_a_difference(margin: float | None, explained: bool) -> None:
    other = outcome((1, 2, 3), (1, 9, 3), margin)
    assert (other.identical, other.first_difference, other.explained) == (False, 1, explained)


def test_where_outputs_part() -> None:
    assert first_difference((1, 2), (1, 2)) is None
    assert first_difference((1, 2), (3, 2)) == 0
    assert first_difference((1, 2), (1, 2, 3)) == 2
    assert first_difference((), (1,)) == 0


def test_totals_weigh_every_token_alike() -> None:
    outcomes = [
        outcome((1, 2, 3), (1, 2, 3)),
        outcome((1, 2, 3), (1, 2, 4), 1e-4),
        outcome((1, 2, 3), (1, 2, 4), 0.5),
    ]
    total = totals(outcomes)
    assert (total["prompts"], total["identical"], total["explained"], total["unexplained"]) == (3, 1, 1, 1)
    assert (total["plain_tok_s"], total["spec_tok_s"], total["speedup"]) == (2.0, 4.0, 2.0)
    assert total["acceptance_length"] == 2.5


def test_without_tokens_there_are_no_rates() -> None:
    total = totals([Outcome(PROMPT, choice((), 0), choice((), 0), 1e-3)])
    assert (total["plain_tok_s"], total["speedup"], total["acceptance_length"]) == (None, None, None)


def test_built_in_prompts_are_of_different_kinds() -> None:
    prompts = built_in("embedded")
    assert len({prompt.category for prompt in prompts}) == len(prompts) == 6
    assert all(isinstance(prompt.prompt, Chat) for prompt in prompts)
    numbers = built_in("synthetic:vocab=64")
    assert numbers[0].prompt == "1 2 3 4 5 6"
    assert len({prompt.id for prompt in numbers}) == 6


def test_prompts_are_read_from_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text(
        '{"id": "a", "category": "c", "messages": [{"role": "user", "content": "é"}], "max_tokens": 5}\n\n'
        '{"prompt": "plain"}\n',
        encoding="utf-8",
    )
    assert read_prompts(path) == [
        DemoPrompt("a", "c", Chat((Message("user", "é"),)), 5),
        DemoPrompt("prompt-3", "", "plain"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "not json",
        '{"messages": []}',
        "[]",
        "{}",
        '{"messages": "x"}',
        '{"prompt": 3}',
        '{"prompt": "x", "max_tokens": "y"}',
        '{"messages": [1]}',
    ],
)
def test_bad_lines_are_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text(f'{{"prompt": "good"}}\n{line}\n')
    with pytest.raises(InvalidField, match=r"prompts\.jsonl:2: got"):
        read_prompts(path)


def test_prompts_are_shown_in_one_line() -> None:
    assert DemoPrompt("a", "", Chat((Message("system", "no"), Message("user", "one\ntwo")))).shown == "one two"
    assert DemoPrompt("a", "", "x " * 200).shown.endswith("x …")
    assert DemoPrompt("a", "", TokenPrompt((1, 2))).shown == "2 token ids"


def test_files_without_prompts_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidField, match="wanted a file that can be read"):
        read_prompts(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(InvalidField, match="at least one prompt"):
        read_prompts(tmp_path / "empty.jsonl")
