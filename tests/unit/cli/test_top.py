"""What `foreword top` shows of what an orchestrator tells."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from foreword.cli.top import Speeds, look_json, screen
from foreword.protocol.activity import Activity, ChoiceActivity
from foreword.protocol.generation import GammaChoice, PeerInfo, Usage
from foreword.protocol.words import Rule
from foreword.testing.mock_server import mock_info

CHOSEN = GammaChoice(2, "best", 20_000.0, 2_000.0, 20_000.0, survival=(0.8, 0.64), tokens_per_s=(50.0, 81.8, 101.7))
USAGE = Usage(output_tokens=20, verifications=8, accepted_tokens=12, drafted_tokens=16)
CHOICE = ChoiceActivity("mine", 0, 1_500_000, "target:1", "draft:2", Rule.BLOCK, USAGE, CHOSEN)


def shown(activity: Activity, speeds: dict[tuple[str, int], float] | None = None, info=None) -> list[str]:  # type: ignore[no-untyped-def]
    console = Console(file=io.StringIO(), width=160, color_system=None)
    console.print(screen(info or mock_info(), activity, speeds or {}))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_a_line_tells_how_fast_and_why() -> None:
    lines = shown(Activity(1, (CHOICE,)), {("mine", 0): 96.5})
    assert "1 at work  96.5 tokens/s" in lines[0]
    assert " ".join(lines[-1].split()) == "mine 1.5 20 96.5 2.50 draft:2 2 best 0.80 0.64 101.7 50.0"


def test_one_look_knows_no_speed() -> None:
    assert shown(Activity(1, (CHOICE,)))[0].endswith("1 at work")
    assert shown(Activity(0))[0].endswith("0 at work  0.0 tokens/s")


def test_json_has_what_the_screen_has() -> None:
    found = look_json(mock_info(), Activity(1, (CHOICE,)), {("mine", 0): 96.5})
    assert (found["version"], found["model"], found["requests"]) == (mock_info().version, "mock", 1)
    assert found["drafts"] == [{"address": "mock-draft:1", "up": True, "round_trip_us": 100, "last_error": ""}]
    assert [(one["tok_s"], one["gamma"]["gamma"]) for one in found["choices"]] == [(96.5, 2)]


def test_a_choice_that_measured_nothing_yet_leaves_places_empty() -> None:
    new = replace(CHOICE, choice=1, draft="", usage=Usage(), gamma=GammaChoice(4, "start"))
    assert shown(Activity(1, (new,)))[-1].split() == ["mine/1", "1.5", "0", "none", "4", "start"]


def test_speeds_are_of_choices_that_were_there_before() -> None:
    speeds = Speeds()
    assert speeds.look(Activity(1, (CHOICE,)), 10.0) == {}
    later = replace(CHOICE, usage=replace(USAGE, output_tokens=50))
    other = replace(CHOICE, request_id="other")
    assert speeds.look(Activity(2, (later, other)), 12.0) == {("mine", 0): pytest.approx(15.0)}


def test_what_is_down_says_why() -> None:
    info = replace(mock_info(), drafts=(PeerInfo("draft:2", up=False, last_error="refused"),))
    assert "draft draft:2 is down: refused" in shown(Activity(0), info=info)


def test_names_of_others_cannot_steer_a_terminal() -> None:
    hostile = replace(CHOICE, request_id="\x1b[2J[red]x")
    text = "\n".join(shown(Activity(1, (hostile,))))
    assert "\x1b" not in text
    assert "[2J[red]x" in text
