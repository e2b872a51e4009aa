"""The formula, the plan, a trial over scripted streams, and what is made of trials."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self

import pytest

from foreword.errors import InvalidField, ProtocolFault, Unavailable
from foreword.models.source import parse_source
from foreword.protocol.generation import Delta, Event, Finish, RoundPart, Started, Timings, Usage
from foreword.protocol.words import FinishReason, TokenSource
from loadtest.bench.progress import Progress
from loadtest.overhead.figures import bars_of, figures_of
from loadtest.overhead.formula import RoundCost, expected_emitted, ideal_tokens_per_s
from loadtest.overhead.plan import Plan, read_sessions
from loadtest.overhead.tables import notes_of, tables_of
from loadtest.overhead.trial import Trial, run_trial
from loadtest.overhead.window import Steady

PARTS_MS = {
    "draft_queue": 0.2,
    "draft_compute": 8.4,
    "network": 0.8,
    "block_lag": 8.0,
    "verify_queue": 0.3,
    "verify_compute": 20.2,
    "host": 0.3,
}


def test_the_formula() -> None:
    assert expected_emitted(0.8, 4) == pytest.approx((1 - 0.8**5) / 0.2)
    assert expected_emitted(1.0, 4) == 5.0
    assert expected_emitted(0.0, 4) == 1.0
    assert ideal_tokens_per_s(32, 3.5, RoundCost(8.0, 20.0, 7.0)) == pytest.approx(32 * 3.5 / 0.035)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sessions", ()),
        ("sessions", (0,)),
        ("sessions", (1, 1)),
        ("sessions", (257,)),
        ("tokens", 63),
        ("gamma", 0),
        ("draft_ms", 0.0),
        ("target_ms", math.inf),
        ("agreement", 1.01),
    ],
)
def test_plans_that_cannot_be_measured_are_refused(field: str, value: object) -> None:
    with pytest.raises(InvalidField, match=field):
        Plan(**{field: value})  # type: ignore[arg-type]


def test_sessions_are_read_from_a_list() -> None:
    assert read_sessions("1,32") == (1, 32)
    with pytest.raises(InvalidField, match="sessions"):
        read_sessions("1,many")


def test_the_stack_gets_the_step_times_of_the_plan() -> None:
    stack = Plan(draft_ms=3.0, target_ms=30.0, agreement=0.5, gamma=2, tokens=100).stack()
    models = {name: parse_source(source).synthetic for name, source in (("t", stack.target), ("d", stack.draft or ""))}
    assert stack.gamma == 2
    assert models["t"] is not None
    assert models["d"] is not None
    assert (models["t"].step_ms, models["d"].step_ms) == (30.0, 3.0)
    assert (models["t"].seed, models["t"].agreement) == (models["d"].seed, 0.5)
    assert models["t"].context >= 100 + len(Plan().prompt(0, 0)) + 2


def test_no_two_sessions_of_a_run_have_the_same_prompt() -> None:
    plan = Plan()
    prompts = [tuple(plan.prompt(session, repeat)) for repeat in (-1, 0, 1, 2, 31) for session in range(256)]
    assert len(set(prompts)) == len(prompts)


class ScriptedClient:
    """Streams rounds of a fixed length; the end says what the script says."""

    def __init__(self, *, emitted: int = 4, round_s: float = 0.002, tokens: int | None = None, **usage: int) -> None:
        self.requests: list[tuple[Any, dict[str, Any]]] = []
        self._emitted, self._round_s, self._tokens, self._usage = emitted, round_s, tokens, usage

    def stream(self, prompt: Any, **fields: Any) -> ScriptedStream:
        self.requests.append((prompt, fields))
        return ScriptedStream(self._events(self._tokens or fields["max_tokens"]))

    async def _events(self, tokens: int) -> AsyncIterator[Event]:
        yield Started("r", "m", 3)
        sources = (*[TokenSource.DRAFT] * (self._emitted - 1), TokenSource.TARGET)
        for _ in range(tokens // self._emitted):
            await asyncio.sleep(self._round_s)
            yield Delta(0, "", tuple(range(self._emitted)), sources)
        parts = tuple(RoundPart(name, p50_us=1000 * ms, sum_us=0.0) for name, ms in PARTS_MS.items())
        usage = Usage(**{"output_tokens": tokens, "verifications": tokens // self._emitted, **self._usage})
        yield Finish(0, FinishReason.LENGTH, usage=usage, timings=Timings(parts=parts))


class ScriptedStream:
    def __init__(self, events: AsyncIterator[Event]) -> None:
        self._events = events

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._events

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


async def tried(client: ScriptedClient, sessions: int = 2, plan: Plan | None = None) -> Trial:
    return await run_trial(client, plan or Plan(tokens=80), sessions, repeat=0, pids={})  # type: ignore[arg-type]


async def test_a_trial_measures_what_the_streams_did() -> None:
    client, plan = ScriptedClient(), Plan(tokens=80)
    trial = await tried(client, 2, plan)
    assert (trial.sessions, trial.late, trial.cpu_ms, trial.other_cores) == (2, 0, {}, None)
    assert trial.emitted == 4.0
    assert trial.parts_ms == pytest.approx(PARTS_MS)
    assert trial.steady.rounds == trial.steady.tokens // 4
    assert trial.cost == RoundCost(8.4, 20.2)
    assert [fields["gamma"] for _, fields in client.requests] == [4, 4]
    assert client.requests[0][0] != client.requests[1][0]
    # What a share is: a round of the formula over a round as it was, for one session.
    assert trial.share(trial.cost) == pytest.approx(28.6 / (1000 * trial.steady.round_s), rel=0.2)


async def test_late_rounds_are_no_verifications() -> None:
    trial = await tried(ScriptedClient(late_blocks=1))
    steady = trial.steady
    assert trial.late == 2
    assert trial.emitted == (steady.tokens - 2) / (steady.rounds - 2)


async def test_runs_that_say_nothing_are_refused() -> None:
    with pytest.raises(Unavailable, match="2 sessions: got no verified block"):
        await tried(ScriptedClient(verifications=0))
    with pytest.raises(ProtocolFault, match="got 40 tokens, wanted 80"):
        await tried(ScriptedClient(tokens=40))


def trial(sessions: int, round_ms: float, *, draft_ms: float = 8.4, emitted: int = 3, late: int = 0) -> Trial:
    rounds = 50 * sessions
    steady = Steady(1000 * sessions * emitted / round_ms, rounds * emitted, rounds, round_ms / 1000)
    return Trial(sessions, steady, late, {**PARTS_MS, "draft_compute": draft_ms}, {"client": 1.0, "target": 2.0}, 0.5)


def test_shares_are_of_the_step_times_of_the_same_trial() -> None:
    plan = Plan(repeats=3)
    trials = [trial(1, 30.0), trial(32, 40.0), trial(1, 31.0), trial(32, 44.0), trial(1, 32.0, draft_ms=10.0)]
    one, many = figures_of(plan, trials)
    assert one.share.median == pytest.approx(sorted([28.6 / 30, 28.6 / 31, 30.2 / 32])[1])
    assert one.share_of_settings.median == pytest.approx(28 / 31)
    assert many.share.low == pytest.approx(28.6 / 44)
    assert (one.round_ms, many.round_ms) == (31.0, 42.0)
    assert [(bar.name, bar.bound, bar.holds) for bar in bars_of([one, many])] == [
        ("share of the formula, 1 session", 0.95, False),
        ("share of the formula, 32 sessions", 0.85, False),
    ]
    assert bars_of(figures_of(Plan(sessions=(2,)), [trial(2, 30.0)])) == []


def test_parts_and_the_rest_make_a_round() -> None:
    (one,) = figures_of(Plan(sessions=(1,)), [trial(1, 31.0)])
    figures = one.json(Plan())
    parts = figures["parts_ms"]
    assert sum(ms for name, ms in parts.items() if name != "block_lag") + figures["other_ms"] == pytest.approx(31.0)
    assert figures["rtt_ms"] == 0.0
    assert figures["draft_step_ms"] == pytest.approx(2.1)
    assert figures["emitted_per_verification"] == 3.0
    assert figures["emitted_per_verification_in_theory"] == pytest.approx(3.3616)
    assert figures["cpu_ms_per_round"] == {"client": 1.0, "target": 2.0}
    assert figures["other_work_cores"] == 0.5
    json.dumps(figures, allow_nan=False)


def test_tables_show_every_part_for_every_arm() -> None:
    arms = figures_of(Plan(), [trial(1, 31.0), trial(32, 40.0)])
    throughput, parts, cpu = tables_of(arms)
    assert throughput.columns == ("", "1 session", "32 sessions")
    assert ("late blocks", "0", "0") in throughput.rows
    assert len(parts.rows) == 7 + 2
    assert parts.columns == ("part", "1 session", "32 sessions")
    assert cpu.rows[-1] == ("all", 3.0, 3.0)
    assert all(len(row) == len(table.columns) for table in (throughput, parts, cpu) for row in table.rows)
    assert any("RTT 0" in note for note in notes_of(Plan(), arms))


def test_progress_is_a_line_for_every_stage_off_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    from foreword.cli.output import stderr

    with Progress(stderr()) as progress:
        progress.begin(2)
        for stage in ("1 session", "1 session", "32 sessions"):
            progress.now(stage)
            progress.done()
    out, err = capsys.readouterr()
    assert (out, [line.split("s  ")[1] for line in err.splitlines()]) == ("", ["1 session", "32 sessions"])


def test_the_plot_is_drawn(tmp_path: Any) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    from loadtest.overhead.tables import draw_rounds

    figure = Figure()
    draw_rounds(figures_of(Plan(), [trial(1, 31.0), trial(32, 40.0)]), figure)
    figure.savefig(tmp_path / "x.svg")
    assert (tmp_path / "x.svg").stat().st_size > 1000
