"""One bad session, one bad pass, a full cache: what they cost, and whom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from foreword.errors import EngineFailure
from foreword.laws.parameters import Grammar, LawParameters
from foreword.models.synthetic import SyntheticModel
from foreword.protocol.messages import LoadReport, Lost, Receipt, Refused, Result, TargetOpened, VerdictNotice
from foreword.protocol.words import LossCode, ReceiptCode, RefusalCode
from foreword.runner.port import Logits, Memory, Rows
from target_service.core.budget import Budget
from target_service.engine.messages import GiveUp, PrefixHits, Status, StepReport, StopOpening, Unreadable
from tests.unit.target_service.kit import SAMPLED, Bench, Peer, open_session


class Meddler:
    """A runner whose forward pass is meddled with."""

    def __init__(self, runner: object, meddle: Callable[[Sequence[Rows], list[Logits]], list[Logits]]) -> None:
        self._runner = runner
        self._meddle = meddle

    def __getattr__(self, name: str) -> object:
        return getattr(self._runner, name)

    def forward(self, batch: Sequence[Rows]) -> list[Logits]:
        return self._meddle(batch, self._runner.forward(batch))  # type: ignore[attr-defined]


def meddled(meddle: Callable[[Sequence[Rows], list[Logits]], list[Logits]], **options: object) -> Bench:
    return Bench(wrap=lambda runner: Meddler(runner, meddle), **options)  # type: ignore[arg-type]


def test_logits_that_are_no_numbers_cost_their_session_only() -> None:
    def spoil(batch: Sequence[Rows], logits: list[Logits]) -> list[Logits]:
        return [
            np.full_like(rows, np.nan) if entry.slot == 0 else rows for entry, rows in zip(batch, logits, strict=True)
        ]

    bench, bad, good = meddled(spoil), Peer(1), Peer(2)
    bench.command(open_session(1, first=bad.plain(3)), open_session(2, first=good.plain(3)))
    bench.run(300)
    (lost,) = bench.events(Lost)
    assert (lost.sid, lost.code) == (1, LossCode.LAW)
    assert "nan" in lost.message
    assert [r.sid for r in bench.events(Result)] == [2, 2, 2]


def test_a_law_under_which_nothing_may_come_costs_its_session_only() -> None:
    def leave_one(batch: Sequence[Rows], logits: list[Logits]) -> list[Logits]:
        one = np.full_like(logits[0], -np.inf)
        one[:, 5] = 1.0
        return [one if entry.slot == 0 else rows for entry, rows in zip(batch, logits, strict=True)]

    bench, bad, good = meddled(leave_one), Peer(1), Peer(2)
    law = LawParameters(temperature=0.0, banned_ids=(5,))
    bench.command(open_session(1, law=law, first=bad.plain(3)), open_session(2, first=good.plain(3)))
    bench.run(300)
    (lost,) = bench.events(Lost)
    assert (lost.sid, lost.code) == (1, LossCode.DEAD_END)
    assert "no token left" in lost.message
    assert [r.sid for r in bench.events(Result)] == [2, 2, 2]


def test_a_prompt_that_fits_the_context_fits_an_empty_cache_of_that_size() -> None:
    bench, peer = Bench(pages=2), Peer(1, prompt=tuple(range(1, 32)))
    bench.command(open_session(1, tokens=peer.prompt, first=peer.plain(5)))
    bench.run(300)
    assert not bench.events(Refused)
    (result,) = bench.events(Result)
    assert result.final


def test_a_block_that_cannot_be_judged_costs_its_session_only() -> None:
    bench, bad, good = Bench(), Peer(1), Peer(2)

    def off_support(*_: object, **__: object) -> None:
        raise EngineFailure("residual: got garbage")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("target_service.engine.judge.gather", off_support)
        bench.command(open_session(1, law=SAMPLED), open_session(2, first=good.plain(3)))
        bench.command(bad.speculate(), ms=45)
        bench.block(bad.block((1,)), ms=45)
        bench.run(300)
    assert [(lost.sid, lost.code) for lost in bench.events(Lost)] == [(1, LossCode.LAW)]
    assert len(bench.events(Result)) == 3
    assert not bench.answers(VerdictNotice)


def test_a_pass_that_raises_costs_the_sessions_of_its_step_only() -> None:
    passes = iter(range(100))

    def fail_once(batch: Sequence[Rows], logits: list[Logits]) -> list[Logits]:
        if next(passes) == 2:
            raise RuntimeError("device lost")
        return logits

    bench, peer, idle = meddled(fail_once), Peer(1), Peer(2)
    bench.command(open_session(1, first=peer.plain(50)), open_session(2))
    bench.command(idle.plain(2), ms=150)
    bench.run(400)
    (lost,) = bench.events(Lost)
    assert (lost.sid, lost.code) == (1, LossCode.RUNNER)
    assert "device lost" in lost.message
    assert [r.sid for r in bench.events(Result)] == [1, 1, 2, 2]


def test_passes_that_keep_raising_end_the_engine() -> None:
    def fail(batch: Sequence[Rows], logits: list[Logits]) -> list[Logits]:
        raise RuntimeError("device lost")

    bench = meddled(fail)
    for sid in (1, 2, 3):
        bench.command(open_session(sid), ms=30 * sid)
    with pytest.raises(EngineFailure, match="3 forward passes in a row failed, the last with: device lost"):
        bench.run(400)


@pytest.mark.parametrize(
    ("change", "code", "text"),
    [
        ({"tokens": (3, 64), "prompt_len": 2}, RefusalCode.BAD, "tokens: got 64, wanted token ids from 0 to 63"),
        ({"prompt_len": 9}, RefusalCode.BAD, "prompt_len: got 9, wanted 1 to 5"),
        ({"max_output": 0}, RefusalCode.BAD, "max_output: got 0, wanted at least 1"),
        ({"top_logprobs": 1000}, RefusalCode.BAD, "top_logprobs: got 1000, wanted 0 to 128"),
        ({"law": LawParameters(stop_ids=(64,))}, RefusalCode.BAD, "stop_ids: got 64"),
        ({"law": LawParameters(temperature=-1.0)}, RefusalCode.BAD, "temperature: got -1.0"),
        ({"law": LawParameters(grammar=Grammar("regex", "a+"))}, RefusalCode.BAD, "law.grammar: got 'regex'"),
        ({"tokens": (1,) * 5000, "prompt_len": 5000}, RefusalCode.TOO_LONG, "tokens: got 5000, wanted under 4096"),
    ],
)
def test_an_open_that_cannot_be_is_refused_with_its_reason(
    change: dict[str, object], code: RefusalCode, text: str
) -> None:
    bench = Bench()
    bench.command(replace(open_session(5), **change))
    bench.run(100)
    (refused,) = bench.events(Refused)
    assert (refused.sid, refused.code, refused.retry_after_ms) == (5, code, None)
    assert text in refused.message


def test_a_long_prompt_is_read_in_pieces_beside_those_who_decode() -> None:
    bench, peer = Bench(budget=Budget(512, 16)), Peer(1)
    bench.command(open_session(1, first=peer.plain(50)))
    bench.command(
        open_session(2, tokens=tuple(i % 60 for i in range(100)), first=replace(peer.plain(2), sid=2, round=1)), ms=41
    )
    bench.run(320)
    reports = [m for _, batch in bench.channel.batches for m in batch if isinstance(m, StepReport)]
    assert [r.prompt_rows for r in reports[:11]] == [4, 0, 0, 16, 16, 16, 16, 16, 16, 3, 0]
    assert all(r.plain >= 1 for r in reports[1:])
    assert bench.events(TargetOpened)[1].prefill_us == 159_000


def test_one_token_is_prompt_enough() -> None:
    bench, peer = Bench(), Peer(1, prompt=(7,))
    bench.command(open_session(1, tokens=(7,), first=peer.plain(1)))
    bench.run(100)
    assert bench.timed_events(Result)[0][0] == 20_000


def test_a_message_that_cannot_be_read_costs_its_session() -> None:
    bench, peer = Bench(), Peer()
    bench.command(open_session(1, first=peer.plain(50)))
    bench.channel.at(45_000, Unreadable(1, 1, "commit.digest: missing"))
    bench.channel.at(45_000, Unreadable(1, 2, "open.law: missing"))
    bench.run(200)
    assert bench.events(Lost) == [Lost(1, LossCode.PROTOCOL, "commit.digest: missing")]
    assert bench.events(Refused) == [Refused(2, RefusalCode.BAD, "open.law: missing")]


def test_ids_out_of_range_in_a_commit_or_a_block_reach_no_device() -> None:
    bench, bad, good = Bench(), Peer(1), Peer(2)
    bench.command(open_session(1), open_session(2))
    commit = bad.plain(1)
    bench.command(replace(commit, base=1, tokens=(64,)), good.speculate(), ms=30)
    bench.block(good.block((64,)), ms=31)
    bench.block(good.block((1,)), ms=32)
    bench.run(200)
    assert [(lost.sid, lost.code) for lost in bench.events(Lost)] == [(1, LossCode.PROTOCOL)]
    # After a bad block nothing is waited for, so the plain step has begun when the other one comes.
    assert [r.code for r in bench.answers(Receipt)] == [ReceiptCode.BAD, ReceiptCode.LATE]
    assert len(bench.events(Result)) == 1


def test_a_draining_target_refuses_opens_and_then_lets_everybody_move() -> None:
    bench, peer = Bench(), Peer()
    bench.command(open_session(1, first=peer.plain(50)))
    bench.channel.at(30_000, StopOpening())
    bench.command(open_session(2), ms=31)
    bench.channel.at(65_000, GiveUp())
    bench.run(200)
    assert [(r.sid, r.code) for r in bench.events(Refused)] == [(2, RefusalCode.DRAINING)]
    assert [(lost.sid, lost.code) for lost in bench.events(Lost)] == [(1, LossCode.DRAINING)]
    assert bench.runner.resident_tokens == 0


def test_each_second_the_engine_says_how_it_is() -> None:
    bench, peer = Bench(pages=60), Peer()
    bench.command(open_session(1, first=peer.plain(3)))
    bench.command(peer.recall(), ms=200)
    bench.run(1500)
    statuses = [m for _, batch in bench.channel.batches for m in batch if isinstance(m, Status)]
    assert len(statuses) == 10  # ten a second until the price has settled, then one
    assert statuses[-1].load == LoadReport(sessions=1, waiting=0, free_tokens=59 * 16, step_us=20_000, price=0.0)
    assert (statuses[-1].resident_tokens, statuses[-1].memory) == (7, Memory(16, 60, 59))
    assert statuses[0].prefixes == PrefixHits(), "the first status comes before anything else"
    assert sum(status.prefixes.queried for status in statuses) == 5
    assert [status.counts for status in statuses if status.counts] == [{"old_recall": 1}]
    assert [(point.rows, point.step_us) for point in statuses[1].cost_curve] == [(1, 20_000), (5, 20_000)]


def test_a_context_that_is_full_ends_the_round() -> None:
    bench, peer = Bench(model=SyntheticModel(step_ms=20.0, context=10)), Peer()
    bench.command(open_session(1, first=peer.plain(50)))
    bench.run(400)
    results = bench.events(Result)
    assert [r.final for r in results] == [False] * 4 + [True]
    bench.command(open_session(2))
    near = Peer(2)
    bench.command(near.speculate(gamma=8), ms=430)
    bench.block(near.block((1, 2, 3, 4, 5, 6, 7, 8)), ms=430)
    bench.run(600)
    assert len(bench.events(Result)[-1].ids) == 4, "candidates and the token after them fit"


def test_a_first_commit_with_more_tokens_than_its_open_is_read_as_any_other_text() -> None:
    bench = Bench(pages=11, page_size=4, gamma_max=4, max_waiting=8, budget=Budget(24, 16))
    other, long = Peer(1), Peer(2, prompt=tuple(range(20, 30)))
    bench.command(open_session(1, first=other.plain(9)))
    long.sequence = long.sequence.extended((5,) * 30)
    long.unsent = long.sequence.since(0)
    bench.command(open_session(2, tokens=long.prompt, first=long.plain(2)), ms=50)
    bench.command(other.close(), ms=700)
    bench.run(2_000)
    assert not bench.events(Lost)
    assert [result.base for result in bench.events(Result) if result.sid == 2] == [30, 31]
    reports = [m for _, batch in bench.channel.batches for m in batch if isinstance(m, StepReport)]
    assert max(report.rows for report in reports) <= 24
