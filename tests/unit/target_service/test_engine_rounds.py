"""Rounds through the engine: leases, blocks, late blocks, recalls, closes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from foreword.laws.parameters import LawParameters
from foreword.protocol.messages import (
    Block,
    LinkState,
    LocalOrder,
    Lost,
    Receipt,
    Refused,
    Result,
    TargetOpened,
    TargetTicket,
    VerdictNotice,
)
from foreword.protocol.words import Drafter, LossCode, ReceiptCode, ResultKind
from target_service.core.policy import Lockstep
from target_service.engine.messages import (
    Answers,
    Consumed,
    Events,
    FromEngine,
    LinkEnded,
    Status,
    StepReport,
    StreamEnded,
)
from tests.unit.target_service.kit import INSTANCE, SAMPLED, Bench, Peer, open_session, reference, ticket


def follow(bench: Bench, peer: Peer, *, speculate: bool = True, guess: tuple[int, ...] = (1, 2, 3, 4)) -> None:
    """Have the peer answer every final Result with the next round, 1 ms later, and its block 8 ms later."""

    def react(message: FromEngine) -> None:
        if not isinstance(message, Events):
            return
        for event in message.events:
            if isinstance(event, Result) and event.sid == peer.sid:
                peer.take(event)
                if event.final:
                    ms = bench.time.us / 1000
                    bench.command(peer.speculate() if speculate else peer.plain(2), ms=ms + 1)
                    if speculate:
                        bench.block(peer.block(guess), ms=ms + 8)

    bench.channel.listeners.append(react)


def test_a_lease_that_rides_in_the_open_gives_the_targets_own_text() -> None:
    bench, peer = Bench(), Peer()
    first = peer.plain(4)
    bench.command(open_session(first=first))
    bench.run(400)
    assert bench.events(TargetOpened) == [TargetOpened(1, 0, 4096, prefill_us=20_000)]
    results = bench.events(Result)
    for result in results:
        peer.take(result)
    assert peer.output == reference(bench.model, 4)
    assert [r.final for r in results] == [False, False, False, True]
    assert [r.base for r in results] == [0, 1, 2, 3]
    assert all(r.kind is ResultKind.PLAIN and r.round == 1 for r in results)


def test_a_block_is_joined_with_its_commit_and_verified() -> None:
    bench, peer = Bench(), Peer()
    own = reference(bench.model, 3)
    bench.command(open_session())
    bench.command(peer.speculate(), ms=30)
    bench.block(replace(peer.block((*own[:2], (own[2] + 1) % 64)), draft_queue_us=7, draft_compute_us=6000), ms=38)
    bench.run(200)
    (result,) = bench.events(Result)
    assert (result.kind, result.final, result.base) == (ResultKind.EVIDENCE, True, 0)
    assert result.acceptance == (1.0, 1.0, 0.0)
    assert result.emit == (*own, None)
    timing = result.timing
    assert (timing.block_lag_us, timing.draft_queue_us, timing.draft_compute_us) == (8_000, 7, 6000)
    assert (timing.verify_queue_us, timing.verify_compute_us, timing.step_rows) == (0, 20_000, 4)
    (receipt,) = bench.answers(Receipt)
    (verdict,) = bench.answers(VerdictNotice)
    assert receipt.code is ReceiptCode.TAKEN
    assert (verdict.round, verdict.digest, verdict.kept, verdict.emitted) == (1, receipt.digest, 2, own[2])


def test_verdicts_are_handed_over_before_anything_else_of_a_step() -> None:
    bench, peer, other = Bench(), Peer(1), Peer(2)
    bench.command(open_session(1), open_session(2))
    bench.command(peer.speculate(), other.plain(1), ms=30)
    bench.block(peer.block((1, 2)), ms=30)
    bench.run(200)
    batches = [[type(message) for message in batch] for us, batch in bench.channel.batches if us >= 50_000]
    assert batches[:2] == [[Answers], [Events, StepReport]]


def test_a_block_that_is_taken_costs_no_message_before_its_step() -> None:
    """Its receipt leaves behind the Result of its step, and so does what was consumed meanwhile."""
    bench, peer = Bench(), Peer(1)
    bench.command(open_session(1))
    follow(bench, peer)
    bench.command(peer.speculate(), ms=30)
    bench.block(peer.block((1, 2)), ms=38)
    bench.run(300)
    first = next(i for i, (_, batch) in enumerate(bench.channel.batches) if any(isinstance(m, Answers) for m in batch))
    after = [(us, batch) for us, batch in bench.channel.batches[first:] if not isinstance(batch[0], Status)]
    kinds = [[type(message) for message in batch] for _, batch in after]
    # In the first batch the link to the draft is reported, which does not wait.
    assert kinds[0] == [Events, Answers, Consumed]
    assert kinds[1:5] == [[Answers], [Events, StepReport], [Answers], [Events, Answers, Consumed, StepReport]]
    verdict, receipt = after[3][1][0].answers[0], after[4][1][1].answers[0]
    assert isinstance(verdict, VerdictNotice)
    assert (receipt.code, receipt.round, receipt.digest) == (ReceiptCode.TAKEN, verdict.round, verdict.digest)


def test_refusals_of_blocks_do_not_wait_for_the_step() -> None:
    bench, peer = Bench(), Peer(1)
    bench.command(open_session(1))
    bench.command(peer.speculate(), ms=30)
    bench.block(peer.block((1, 2)), replace(peer.block((3, 4)), ticket=ticket(9)), ms=38)
    bench.run(300)
    told = [
        (us, answer.code)
        for us, batch in bench.channel.batches
        for m in batch
        if isinstance(m, Answers)
        for answer in m.answers
        if isinstance(answer, Receipt)
    ]
    assert (38_000, ReceiptCode.UNKNOWN) in told


def test_a_block_that_comes_before_its_commit_waits_for_it() -> None:
    bench, peer = Bench(), Peer()
    bench.command(open_session())
    bench.block(peer.block((1, 2), ahead=1), ms=30)
    bench.command(peer.speculate(), ms=45)
    bench.run(200)
    assert [r.code for r in bench.answers(Receipt)] == [ReceiptCode.HELD]
    (result,) = bench.events(Result)
    assert result.kind is ResultKind.EVIDENCE
    assert result.timing.block_lag_us == -15_000


@pytest.mark.parametrize("ahead", [0, 1])
def test_of_two_blocks_with_the_same_digest_the_first_wins(ahead: int) -> None:
    bench, peer = Bench(policy=Lockstep()), Peer()
    other = Peer(2)
    bench.command(open_session(), open_session(2))
    if not ahead:
        bench.command(peer.speculate(), other.speculate(wait_ms=10), ms=30)  # the step is held for the other one
    bench.block(peer.block((1, 2), ahead=ahead), ms=31)
    bench.block(peer.block((3, 4, 5), ahead=ahead), ms=32)
    if ahead:
        bench.command(peer.speculate(), ms=45)
    bench.run(200)
    first = ReceiptCode.HELD if ahead else ReceiptCode.TAKEN
    assert [r.code for r in bench.answers(Receipt)] == [first, ReceiptCode.STALE]
    (result,) = [event for event in bench.events(Result) if event.sid == 1]
    assert result.ids == (1, 2)


def test_a_round_whose_block_is_late_takes_a_plain_step_once_its_wait_is_over() -> None:
    bench, peer = Bench(), Peer()
    bench.command(open_session())
    bench.command(peer.speculate(wait_ms=10), ms=30)
    bench.block(peer.block((1, 2)), ms=45)
    bench.run(200)
    ((us, result),) = bench.timed_events(Result)
    assert (us, result.kind, result.final) == (60_000, ResultKind.PLAIN, True)
    assert result.timing.block_lag_us is None
    assert [r.code for r in bench.answers(Receipt)] == [ReceiptCode.LATE]


def test_a_recall_ends_a_wait_at_once() -> None:
    bench, peer = Bench(), Peer()
    bench.command(open_session())
    bench.command(peer.speculate(wait_ms=500), ms=30)
    bench.command(peer.recall(), ms=40)
    bench.run(300)
    assert bench.timed_events(Result)[0][0] == 60_000


def test_a_recall_during_a_step_ends_the_lease_with_that_step() -> None:
    bench, peer = Bench(), Peer()
    bench.command(open_session(first=peer.plain(50)))
    bench.command(peer.recall(), ms=50)  # steps end at 20 (the prompt and the first token), 40, 60
    bench.run(300)
    timed = bench.timed_events(Result)
    assert [(us, r.final) for us, r in timed] == [(20_000, False), (40_000, False), (60_000, True)]


def test_a_close_during_a_step_drops_its_result_and_frees_the_session() -> None:
    bench, peer = Bench(), Peer()
    bench.command(open_session(first=peer.plain(50)))
    bench.command(peer.close(), ms=50)
    bench.run(300)
    assert len(bench.events(Result)) == 2
    assert bench.runner.resident_tokens == 0


def test_the_last_piece_of_a_prompt_brings_the_first_token_of_a_lease() -> None:
    bench, peer, drafted = Bench(), Peer(1), Peer(2)
    bench.command(open_session(1, first=peer.plain(2)), open_session(2))
    bench.run(300)
    told = [(us, type(event)) for us, event in bench.timed_events(object) if event.sid == 1]  # type: ignore[attr-defined]
    assert told[:2] == [(20_000, TargetOpened), (20_000, Result)]
    assert [r.emit[0] for r in bench.events(Result)] == list(reference(bench.model, 2))
    assert not [r for r in bench.events(Result) if r.sid == drafted.sid], "without a lease nothing comes by itself"


@pytest.mark.parametrize("what", ["recall", "close"])
def test_what_comes_while_that_piece_is_read_reaches_the_session(what: str) -> None:
    bench, peer = Bench(), Peer(1)
    bench.command(open_session(1, first=peer.plain(50)))
    bench.command(peer.recall() if what == "recall" else peer.close(), ms=10)
    bench.run(300)
    assert [r.final for r in bench.events(Result)] == ([True] if what == "recall" else [])
    assert len(bench.events(TargetOpened)) == (1 if what == "recall" else 0)
    assert bench.runner.resident_tokens == (5 if what == "recall" else 0)


def test_a_stream_that_ends_releases_its_sessions_and_no_others() -> None:
    bench, peer, other = Bench(), Peer(), Peer()
    bench.command(open_session(first=peer.plain(50)), stream=1)
    bench.command(open_session(first=other.plain(5), with_ticket=False), stream=2)
    bench.channel.at(50_000, StreamEnded(1))
    bench.run(300)
    assert len(bench.events(Result, stream=1)) == 3
    assert len(bench.events(Result, stream=2)) == 5
    bench.channel.at(300_000, StreamEnded(2))
    bench.run(400)
    assert bench.runner.resident_tokens == 0


@pytest.mark.parametrize(
    "law", [LawParameters(temperature=0.0), SAMPLED, LawParameters(top_p=0.7, presence_penalty=0.5)]
)
def test_the_text_under_match_does_not_depend_on_blocks_or_their_lateness(law: LawParameters) -> None:
    bench, peer = Bench(), Peer()
    own = reference(bench.model, 40, law=law)
    bench.command(open_session(law=law, first=peer.plain(1), max_output=41))
    guesses = iter(range(1000))

    def react(message: FromEngine) -> None:
        for event in message.events if isinstance(message, Events) else ():
            if isinstance(event, Result):
                peer.take(event)
                if event.final and peer.sequence.base < 40:
                    ms, base = bench.time.us / 1000, peer.sequence.base
                    right = own[base : base + next(guesses) % 4]
                    bench.command(peer.speculate(wait_ms=12), ms=ms + 1)
                    bench.block(peer.block((*right, 9, 9)[:4]), ms=ms + (8 if base % 5 else 20))

    bench.channel.listeners.append(react)
    bench.run(3000)
    kinds = {r.kind for r in bench.events(Result)}
    assert kinds == {ResultKind.PLAIN, ResultKind.EVIDENCE}
    assert peer.output[:40] == own


class Forgetful:
    """A runner whose rollback does nothing: the planted bug."""

    def __init__(self, runner: object) -> None:
        self._runner = runner

    def __getattr__(self, name: str) -> object:
        return getattr(self._runner, name)

    def truncate(self, slot: int, length: int) -> None:
        return None


def test_a_rollback_that_does_nothing_is_noticed() -> None:
    bench, peer = Bench(wrap=Forgetful, page_size=64), Peer()  # no page is full, so that the pool compares nothing
    own = reference(bench.model, 12)
    bench.command(open_session())
    bench.command(peer.speculate(), ms=30)
    bench.block(peer.block((63, 62, 61)), ms=31)
    follow(bench, peer, guess=(63, 62, 61))
    bench.run(400)
    assert peer.output[:12] != own


def test_what_was_taken_is_said_so_that_floods_are_noticed() -> None:
    bench, peer = Bench(), Peer()
    bench.command(open_session(first=peer.plain(50)))
    bench.block(*[peer.block((1,))] * 3, ms=45)
    bench.command(peer.recall(), ms=50)
    bench.run(200)
    consumed = [m for _, batch in bench.channel.batches for m in batch if isinstance(m, Consumed)]
    totals = {number: sum(n for m in consumed for key, n in m.taken if key == number) for number in (1, 9)}
    assert totals == {1: 2, 9: 3}


def test_blocks_under_tickets_that_nobody_has_are_told_so() -> None:
    bench, peer = Bench(), Peer(7)
    bench.command(open_session(1))
    bench.block(peer.block((1,)), ms=30)
    bench.run(100)
    (receipt,) = bench.answers(Receipt, link=9)
    assert (receipt.ticket, receipt.code) == (ticket(7), ReceiptCode.UNKNOWN)


def test_orchestrators_hear_when_a_drafts_link_comes_and_goes() -> None:
    bench, peer = Bench(), Peer()
    bench.command(open_session())
    bench.command(peer.speculate(), ms=30)
    bench.block(peer.block((1,)), ms=31, link=9)
    bench.channel.at(60_000, LinkEnded(9))
    bench.run(100)
    assert bench.events(LinkState) == [
        LinkState(ticket(1), INSTANCE, up=True),
        LinkState(ticket(1), INSTANCE, up=False),
    ]


def test_a_verdict_goes_to_the_link_that_its_draft_has_come_back_on() -> None:
    bench, peer, other = Bench(policy=Lockstep()), Peer(1), Peer(2)
    bench.command(open_session(1), open_session(2))
    bench.command(peer.speculate(), other.speculate(wait_ms=10), ms=30)  # the step is held for the other one
    bench.block(peer.block((1,)), ms=31, link=9)
    bench.channel.at(32_000, LinkEnded(9))
    bench.block(peer.block((1,)), ms=33, link=10)
    bench.run(200)
    assert [r.code for r in bench.answers(Receipt, link=10)] == [ReceiptCode.STALE]
    assert len(bench.answers(VerdictNotice, link=10)) == 1
    assert not bench.answers(VerdictNotice, link=9)


def test_a_new_assignment_takes_over_and_the_old_one_ends() -> None:
    bench, peer = Bench(), Peer()
    bench.command(open_session())
    bench.command(TargetTicket(1, ticket(2)), ms=30)
    order = replace(peer.speculate(), order=replace(peer.speculate().order, ticket=ticket(2)))  # type: ignore[arg-type]
    bench.command(replace(order, round=1), ms=31)
    bench.block(Block(ticket(2), 1, 0, peer.sequence.digest, (1,), drafter=peer.block(()).drafter), ms=32)
    bench.block(Block(ticket(1), 2, 0, peer.sequence.digest, (1,), drafter=peer.block(()).drafter), ms=33)
    bench.run(200)
    assert [r.code for r in bench.answers(Receipt)] == [ReceiptCode.TAKEN, ReceiptCode.UNKNOWN]


def test_a_ticket_serves_one_session() -> None:
    bench = Bench()
    bench.command(open_session(1), open_session(2, with_ticket=False))
    bench.command(TargetTicket(2, ticket(1)), ms=30)
    bench.command(replace(open_session(3), ticket=ticket(1)), ms=31)
    bench.run(100)
    assert [(e.sid, e.code) for e in bench.events(Lost)] == [(2, LossCode.PROTOCOL)]
    assert [e.sid for e in bench.events(Refused)] == [3]


def test_the_tokens_of_a_lease_stop_at_a_stop_id_and_at_the_budget() -> None:
    bench, peer = Bench(), Peer()
    own = reference(bench.model, 6)
    stop = own[2]
    bench.command(open_session(law=LawParameters(temperature=0.0, stop_ids=(stop,)), first=peer.plain(50)))
    bench.command(open_session(2, max_output=5, first=replace(peer.plain(50), sid=2, round=1)))
    bench.run(400)
    assert [r.emit[0] for r in bench.events(Result) if r.sid == 1] == list(own[: own.index(stop) + 1])
    assert [r.final for r in bench.events(Result) if r.sid == 2] == [False] * 4 + [True]


def test_a_second_commit_while_one_runs_loses_that_session_only() -> None:
    bench, peer, other = Bench(), Peer(1), Peer(2)
    bench.command(open_session(1, first=peer.plain(50)), open_session(2, first=other.plain(3)))
    bench.command(replace(peer.plain(1), base=0, digest=peer.sequence.digest), ms=45)
    bench.run(300)
    assert [(e.sid, e.code) for e in bench.events(Lost)] == [(1, LossCode.PROTOCOL)]
    assert [r.final for r in bench.events(Result) if r.sid == 2] == [False, False, True]


def test_a_local_order_is_a_plain_lease_while_there_are_no_local_drafters() -> None:
    bench, peer = Bench(), Peer()
    first = replace(peer.plain(2), order=LocalOrder(Drafter.LOOKUP, gamma=4, limit=2))
    bench.command(open_session(first=first))
    bench.run(300)
    assert [r.kind for r in bench.events(Result)] == [ResultKind.PLAIN] * 2
