"""Log-probabilities of prompts: each token's is that of the row before it, however the prompt is read."""

from __future__ import annotations

import numpy as np
import pytest

from foreword.errors import InvalidField
from foreword.laws.logprobs import FLOOR, raw_log_probabilities
from foreword.models.synthetic import SyntheticModel
from foreword.protocol.messages import LogProbabilities, Lost, Result, TargetOpened, TargetScored, Tokens
from foreword.protocol.words import LossCode
from foreword.runner.port import Rows
from foreword.testing.synthetic import Side, SyntheticRunner
from foreword.values import replace
from target_service.core.budget import Budget
from target_service.engine.admission import Bars, check
from target_service.engine.planner import SCORED_ROWS
from tests.unit.target_service.kit import PROMPT, SAMPLED, Bench, Peer, open_session, reference

LONG = tuple(7 * i % 64 for i in range(100))


def asking(sid: int, prompt: Tokens, *, top: int = 2, **fields: object):  # type: ignore[no-untyped-def]
    return replace(open_session(sid, tokens=prompt, law=SAMPLED, **fields), prompt_logprobs=top)  # type: ignore[arg-type]


def wanted(model: SyntheticModel, prompt: Tokens, *, top: int = 2) -> LogProbabilities:
    """Return the log-probabilities of a prompt that is read in one pass, from the logits alone."""
    runner = SyntheticRunner(replace(model, step_ms=0.0), side=Side.TARGET)
    runner.open(0)
    (logits,) = runner.forward([Rows(0, prompt, len(prompt))])
    chosen, tops = [], []
    for row, token in zip(logits.astype(np.float64), prompt[1:], strict=False):
        logs = np.maximum(row - np.log(np.exp(row).sum()), FLOOR)
        chosen.append(float(logs[token]))
        best = sorted(range(len(logs)), key=lambda i: (-logs[i], i))[:top]
        tops.append(tuple((i, float(logs[i])) for i in best))
    return LogProbabilities(tuple(chosen), tuple(tops))


def joined(bench: Bench, sid: int) -> LogProbabilities:
    """Return what was told of a prompt; raises AssertionError for a gap or a repetition."""
    parts = [event for event in bench.events(TargetScored) if event.sid == sid]
    position = 1
    for part in parts:
        assert part.position == position
        position += len(part.logprobs.chosen)
    return LogProbabilities(
        tuple(value for part in parts for value in part.logprobs.chosen),
        tuple(row for part in parts for row in part.logprobs.top),
    )


def assert_same(found: LogProbabilities, expected: LogProbabilities) -> None:
    assert found.chosen == pytest.approx(expected.chosen, abs=1e-6)
    assert [[token for token, _ in row] for row in found.top] == [[token for token, _ in row] for row in expected.top]
    for row, other in zip(found.top, expected.top, strict=True):
        assert [value for _, value in row] == pytest.approx([value for _, value in other], abs=1e-6)


@pytest.mark.parametrize("rows", [1, 7, 16, 256])
def test_they_do_not_depend_on_how_the_prompt_is_read(rows: int) -> None:
    bench, peer = Bench(budget=Budget(512, rows)), Peer(prompt=LONG)
    bench.command(asking(1, LONG, first=peer.plain(3)))
    bench.run(20_000)
    assert_same(joined(bench, 1), wanted(bench.model, LONG))
    for result in bench.events(Result):
        peer.take(result)
    assert peer.output == reference(bench.model, 3, law=SAMPLED, prompt=LONG), "the output is that of any request"
    kinds = [type(event) for event in bench.events(object) if isinstance(event, TargetScored | TargetOpened | Result)]
    assert kinds.index(TargetOpened) == kinds.count(TargetScored), "all of it comes before the target has opened"


def test_a_prompt_that_is_cached_is_scored_all_the_same() -> None:
    bench = Bench()
    bench.command(open_session(1, tokens=LONG, first=Peer(1, prompt=LONG).plain(1)))
    bench.command(asking(2, LONG, first=Peer(2, prompt=LONG).plain(1)), ms=2_000)
    bench.command(open_session(3, tokens=LONG, first=Peer(3, prompt=LONG).plain(1)), ms=4_000)
    bench.run(6_000)
    assert_same(joined(bench, 2), wanted(bench.model, LONG))
    assert [event.cached_tokens for event in bench.events(TargetOpened)] == [0, 0, 96]


def test_a_session_that_gives_up_its_pages_tells_nothing_twice() -> None:
    bench = Bench(pages=20, page_size=8, budget=Budget(64, 8), max_waiting=8)
    older, peer = Peer(1), Peer(2, prompt=LONG)
    bench.command(open_session(1, first=older.plain(60)))
    bench.command(asking(2, LONG, first=peer.plain(40)), ms=30)
    bench.run(60_000)
    assert_same(joined(bench, 2), wanted(bench.model, LONG))
    assert not bench.events(Lost)


def test_many_prompts_share_the_rows_of_a_step() -> None:
    seen: list[int] = []

    class Watching:
        def __init__(self, runner: SyntheticRunner) -> None:
            self._runner = runner

        def __getattr__(self, name: str) -> object:
            return getattr(self._runner, name)

        def forward(self, batch: list[Rows]) -> object:
            seen.append(sum(rows.need for rows in batch))
            return self._runner.forward(batch)

    bench = Bench(model=SyntheticModel(step_ms=20.0, context=512), wrap=Watching, budget=Budget(2048, 2048))
    prompts = {sid: tuple((sid + 5 * i) % 64 for i in range(150)) for sid in range(1, 5)}
    for sid, prompt in prompts.items():
        bench.command(asking(sid, prompt, first=Peer(sid, prompt=prompt).plain(1)))
    bench.run(20_000)
    for sid, prompt in prompts.items():
        assert_same(joined(bench, sid), wanted(bench.model, prompt))
    assert SCORED_ROWS <= max(seen) <= SCORED_ROWS + len(prompts)


def test_a_prompt_of_one_token_has_none() -> None:
    bench = Bench()
    bench.command(asking(1, (5,), first=Peer(1, prompt=(5,)).plain(1)))
    bench.run(1_000)
    assert (bench.events(TargetScored), len(bench.events(TargetOpened)), len(bench.events(Result))) == ([], 1, 1)


def test_logits_that_are_no_numbers_cost_their_session_alone() -> None:
    class Broken:
        def __init__(self, runner: SyntheticRunner) -> None:
            self._runner = runner

        def __getattr__(self, name: str) -> object:
            return getattr(self._runner, name)

        def forward(self, batch: list[Rows]) -> object:
            logits = self._runner.forward(batch)
            return [rows * np.nan if len(rows) > 1 else rows for rows in logits]

    bench = Bench(wrap=Broken)
    bench.command(asking(1, LONG, first=Peer(1, prompt=LONG).plain(1)))
    bench.command(open_session(2, first=Peer(2).plain(3)))
    bench.run(2_000)
    (lost,) = bench.events(Lost)
    assert (lost.sid, lost.code) == (1, LossCode.LAW)
    assert len(bench.events(Result)) == 3


def test_a_number_of_alternatives_is_bounded() -> None:
    with pytest.raises(InvalidField, match="prompt_logprobs: got 129, wanted 0 to 128"):
        check(asking(1, PROMPT, top=129), Bars(4, 4, 100, 64, 8))


def test_alternatives_come_only_where_they_are_asked_for() -> None:
    logits = np.log(np.array([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]], np.float32))
    found = raw_log_probabilities(logits, (1, 2), top=0)
    assert found.chosen == pytest.approx((np.log(0.25), np.log(0.7)))
    assert found.top == ()
    assert [[token for token, _ in row] for row in raw_log_probabilities(logits, (1, 2), top=2).top] == [[0, 1], [2, 1]]
