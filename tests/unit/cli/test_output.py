"""What is written where: colours on terminals only, bytes as they are elsewhere, JSON that programs can read."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from foreword.cli.output import TextWriter, completion_json, plain, shows_colours, summary, write_json
from foreword.client.collect import collect
from foreword.protocol.generation import Choice, Completion, Delta, Finish, Started, Timings, Usage
from foreword.protocol.words import FinishReason, Rule, TokenSource

DRAFT, TARGET = TokenSource.DRAFT, TokenSource.TARGET
DELTA = Delta(0, "ab cd", (1, 2), (DRAFT, TARGET), text_ends=(2, 5))


def console(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, color_system="standard", width=20, soft_wrap=True)


def written(*deltas: Delta, terminal: bool, coloured: bool = True) -> str:
    target = console(terminal=terminal)
    writer = TextWriter(target, coloured=coloured)
    for delta in deltas:
        writer.write(delta)
    writer.finish()
    assert isinstance(target.file, io.StringIO)
    return target.file.getvalue()


def done(tokens: int = 11, timings: Timings = Timings(0, 1_000_000, 3_000_000), **usage: int) -> Completion:  # noqa: B008
    finish = Finish(
        0, FinishReason.LENGTH, usage=Usage(output_tokens=tokens, **usage), timings=timings, rule=Rule.BLOCK, seed=7
    )
    return collect([Started("r", "m", 3), DELTA, finish])


def choice(completion: Completion) -> Choice:
    return completion.choices[0]


def test_a_terminal_shows_who_wrote_what() -> None:
    assert written(DELTA, terminal=True) == "\x1b[32mab\x1b[0m cd\n"
    assert "\x1b[32m" not in written(DELTA, terminal=True, coloured=False)


def test_no_color_leaves_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shows_colours(console(terminal=True))
    assert not shows_colours(console(terminal=False))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not shows_colours(console(terminal=True))
    assert written(DELTA, terminal=True) == "ab cd\n"


def test_a_pipe_gets_the_text_and_a_last_line_end() -> None:
    assert written(DELTA, Delta(0, " and a rather long line\n"), terminal=False) == "ab cd and a rather long line\n"
    assert written(terminal=False) == ""
    assert written(Delta(0, "[red]\x1b[2J"), terminal=False) == "[red]\x1b[2J\n"


def test_a_model_cannot_steer_a_terminal() -> None:
    hostile = Delta(0, "a\x1b[2Jb\x07\x9bc\td\n", (1,), (DRAFT,), text_ends=(9,))
    assert written(hostile, terminal=True) == "\x1b[32ma\ufffd[2Jb\ufffd\ufffdc\td\n\x1b[0m"
    assert written(hostile, terminal=True, coloured=False) == "a\ufffd[2Jb\ufffd\ufffdc\td\n"


def test_rates_are_after_the_first_token_by_the_servers_clock() -> None:
    assert choice(done()).decode_rate == 5.0
    assert choice(done(tokens=1)).decode_rate is None
    assert choice(done(timings=Timings())).decode_rate is None


def test_a_summary_has_the_facts() -> None:
    drafted = done(verifications=4, accepted_tokens=6, drafted_tokens=16)
    assert summary(choice(drafted)) == "11 tokens, 5.0 tok/s, acceptance length 2.50, rule block"
    assert summary(choice(done())) == "11 tokens, 5.0 tok/s, no drafts, rule block"


def test_json_says_everything_by_name() -> None:
    target = console(terminal=True)
    write_json(target, completion_json(done(verifications=4, accepted_tokens=6, drafted_tokens=16)))
    assert isinstance(target.file, io.StringIO)
    read = json.loads(target.file.getvalue())
    assert (read["text"], read["ids"], read["sources"]) == ("ab cd", [1, 2], ["draft", "target"])
    assert (read["reason"], read["rule"], read["seed"], read["tok_s"]) == ("length", "block", 7, 5.0)
    assert read["usage"]["acceptance_length"] == 2.5
    assert read["timings"]["parts"] == []


@pytest.mark.parametrize(
    ("value", "wanted"),
    [(DELTA.sources, ["draft", "target"]), ({1: b"\x01\xff"}, {"1": "01ff"}), (Timings(1), {"queue_us": 1})],
)
def test_values_become_plain(value: object, wanted: object) -> None:
    found = plain(value)
    assert found == wanted or wanted.items() <= found.items()  # type: ignore[attr-defined]
