"""The engine, step by step: batching, continuations, deadlines, repetition, following, losses, room."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from draft_service.core.writing import Drawn
from draft_service.engine.admission import Room
from draft_service.engine.engine import FAILURES, FOLLOW_PATIENCE_NS, Policy
from draft_service.engine_messages import BadCommand, Bound, Drain, LinkUp, Released, StreamEnded
from foreword.errors import EngineFailure
from foreword.laws.parameters import LawParameters
from foreword.protocol.messages import DraftOpened, Follow, Lost, Receipt, Refused, TargetAddress, VerdictNotice
from foreword.protocol.words import LossCode, ReceiptCode, RefusalCode
from foreword.values import replace
from tests.unit.draft_service.kit import GREEDY, MS, Bench, FakeDrafter, opening, target, ticket


def drafting(*sids: int, policy: Policy | None = None) -> Bench:
    """Return a bench with open sessions, nothing ordered yet."""
    bench = Bench(policy=policy)
    bench.open(*(opening(sid) for sid in sids))
    bench.settle()
    bench.events()
    return bench


def test_a_prompt_is_read_in_chunks_all_but_its_last_token() -> None:
    bench = Bench(policy=Policy(chunk=4))
    bench.open(opening(1, tuple(range(11))))
    assert bench.events() == []
    bench.work()
    bench.work()
    assert bench.events() == []
    bench.work()
    assert bench.events() == [DraftOpened(1, 1 << 20)]
    assert [read for _, read in bench.fake.steps] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_a_prompt_of_one_token_opens_without_a_step() -> None:
    bench = Bench()
    bench.open(opening(1, (7,)))
    assert bench.events() == [DraftOpened(1, 1 << 20)]
    assert bench.fake.steps == []
    bench.order(1, 1, gamma=2)
    bench.settle()
    assert [block.ids for block in bench.blocks()] == [(1, 2)]


@pytest.mark.parametrize(("salt", "read"), [(b"ours", [[6, 7, 8, 9]]), (b"theirs", [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]])])
def test_a_beginning_that_is_cached_under_the_same_salt_is_not_read(salt: bytes, read: list[list[int]]) -> None:
    bench = Bench()
    bench.fake.adopted, bench.fake.shared = 6, {(b"ours", tuple(range(6))): 6}
    bench.open(replace(opening(1, tuple(range(11))), cache_salt=salt))
    bench.settle()
    assert bench.events() == [DraftOpened(1, 1 << 20)]
    assert [read for _, read in bench.fake.steps] == read


def test_several_prompts_share_a_chunk_oldest_first() -> None:
    bench = Bench(policy=Policy(chunk=4))
    bench.open(opening(1, (0, 1, 2)), opening(2, (10, 11, 12, 13, 14)))
    bench.work()
    bench.work()
    assert [read for _, read in bench.fake.steps] == [[0, 1, 10, 11], [12, 13]]


def test_an_order_that_comes_during_the_prefill_is_obeyed_after_it() -> None:
    bench = Bench(policy=Policy(chunk=2))
    bench.open(opening(1, (0, 1, 2, 3, 4)))
    bench.work()
    bench.order(1, 1, gamma=2)
    bench.settle()
    assert bench.events() == [DraftOpened(1, 1 << 20)]
    assert [block.ids for block in bench.blocks()] == [(5, 6)]


def test_a_session_drafts_while_another_reads() -> None:
    bench = drafting(1, policy=Policy(chunk=4))
    bench.fake.steps.clear()
    bench.order(1, 1, gamma=3)
    bench.open(opening(2, tuple(range(9))))
    bench.work()
    bench.work()
    assert bench.fake.steps == [([0], [0, 1, 2, 3]), ([0], [4, 5, 6, 7])]


def test_sessions_join_and_leave_a_batch_at_any_step() -> None:
    bench = drafting(1, 2, 3)
    bench.fake.steps.clear()
    bench.order(1, 1, gamma=3)
    bench.work()
    bench.order(2, 1, gamma=1)
    bench.work()
    bench.order(3, 1, gamma=1)
    bench.work()
    assert [slots for slots, _ in bench.fake.steps] == [[0], [0, 1], [0, 2]]
    assert sorted(block.ticket for block in bench.blocks()) == [ticket(1), ticket(2), ticket(3)]


def test_a_block_carries_its_durations() -> None:
    bench = drafting(1)
    bench.order(1, 1, gamma=2)
    bench.now_ns += 3 * MS  # the engine was busy
    bench.fake.during = lambda: setattr(bench, "now_ns", bench.now_ns + 2 * MS)
    bench.work(2, step_ns=0)
    (block,) = bench.blocks()
    assert (block.draft_queue_us, block.draft_compute_us) == (3000, 4000)


def test_a_verdict_starts_the_continuation_before_the_advance() -> None:
    bench = drafting(1)
    bench.order(1, 1, gamma=2)
    bench.settle()
    (first,) = bench.blocks()
    bench.verdict(first, 1, 50)
    bench.settle()
    (second,) = bench.blocks()
    assert (second.round, second.base, len(second.ids)) == (2, 2, 2)
    bench.order(1, 2, (first.ids[0], 50), gamma=2)
    bench.settle()
    assert bench.blocks() == []
    assert second.digest == bench.digests[1]


def test_an_advance_amid_a_continuation_goes_on_with_it() -> None:
    bench = drafting(1)
    bench.order(1, 1, gamma=4)
    bench.settle()
    (first,) = bench.blocks()
    bench.verdict(first, 4, 50)
    bench.work()
    bench.work()
    bench.order(1, 2, (*first.ids, 50), gamma=4)
    bench.settle()
    (second,) = bench.blocks()
    assert second.ids == (8, 9, 10, 11)
    assert len(bench.fake.steps[-4:]) == 4


def test_an_advance_that_disagrees_abandons_the_continuation() -> None:
    bench = drafting(1)
    bench.order(1, 1, gamma=4)
    bench.settle()
    (first,) = bench.blocks()
    bench.verdict(first, 4, 50)
    bench.work()
    bench.order(1, 2, (first.ids[0], 60), gamma=2)
    bench.settle()
    (second,) = bench.blocks()
    assert (second.base, second.ids) == (2, (5, 6))
    assert second.digest == bench.digests[1]


def test_verdicts_that_differ_are_counted_and_told_once_in_ten_seconds() -> None:
    bench = Bench()
    bench.open(opening(1))
    bench.order(1, 1)
    with capture_logs() as logs:
        for round, told in ((2, 1), (3, 1), (4, 2)):
            bench.settle()
            bench.verdict(bench.blocks()[-1], 2, 7)
            bench.order(1, round, (8,))
            assert [entry["log_level"] for entry in logs] == ["warning"] * told
            bench.now_ns += 5_000 * MS
    assert bench.counts()["verdict_differs"] == 3


def test_a_stop_id_ends_a_block_and_goes_with_it() -> None:
    bench = Bench()
    bench.open(opening(1, law=replace(GREEDY, stop_ids=(5,))))
    bench.settle()
    bench.order(1, 1, gamma=8)
    bench.settle()
    (block,) = bench.blocks()
    assert block.ids == (3, 4, 5)
    bench.verdict(block, 3, 9)
    bench.settle()
    assert bench.blocks() == []  # the text is over


@pytest.mark.parametrize(("ordered", "own"), [(0.5, 0.0), (0.0, 0.5)])
def test_a_block_ends_when_its_survival_falls_under_a_threshold(ordered: float, own: float) -> None:
    bench = drafting(1, policy=Policy(stop_threshold=own))
    bench.fake.meddle = lambda pen: Drawn((pen.position,), None, confidence=0.8)
    bench.order(1, 1, gamma=8, stop_threshold=ordered)
    bench.settle()
    assert [len(block.ids) for block in bench.blocks()] == [4]  # 0.8^4 < 0.5 ≤ 0.8^3; the last one is sent


def test_nothing_to_propose_goes_out_empty_at_once() -> None:
    bench = drafting(1)
    bench.fake.meddle = lambda pen: Drawn((), None, stop=True)
    bench.order(1, 1)
    bench.work()
    assert [block.ids for block in bench.blocks()] == [()]


def test_beyond_the_longest_context_blocks_are_empty_and_nothing_is_read() -> None:
    bench = Bench(FakeDrafter(longest=6))
    bench.open(opening(1))
    bench.settle()
    bench.order(1, 1)
    bench.settle()
    assert [len(block.ids) for block in bench.blocks()] == [2]
    bench.order(1, 2, (9, 9, 9, 9))
    bench.settle()
    assert [len(block.ids) for block in bench.blocks()] == [0]


def test_send_by_sends_what_was_drawn() -> None:
    bench = drafting(1)
    bench.order(1, 1, gamma=8, send_by_us=3500)
    bench.fake.during = lambda: setattr(bench, "now_ns", bench.now_ns + MS)
    bench.work(8, step_ns=0)
    assert [len(block.ids) for block in bench.blocks()] == [3]


def test_a_step_that_would_end_too_late_is_not_waited_for() -> None:
    bench = drafting(1)
    bench.fake.during = lambda: setattr(bench, "now_ns", bench.now_ns + 2 * MS)
    bench.order(1, 1, gamma=2)
    bench.settle()
    (first,) = bench.blocks()
    bench.order(1, 2, (first.ids[0], 50), gamma=8, send_by_us=5000)
    bench.work(3, step_ns=0)
    assert [len(block.ids) for block in bench.blocks()] == [2]


def test_a_continuation_has_no_deadline_until_its_order_comes() -> None:
    bench = drafting(1)
    bench.order(1, 1, gamma=2, send_by_us=2000)
    bench.work(2, step_ns=0)
    (first,) = bench.blocks()
    bench.now_ns += 50 * MS
    bench.verdict(first, 2, 50)
    bench.work(2, step_ns=0)
    assert [len(block.ids) for block in bench.blocks()] == [2]


@pytest.mark.parametrize("code", [ReceiptCode.UNKNOWN, ReceiptCode.FULL])
def test_what_could_not_be_taken_yet_is_offered_again_with_growing_waits(code: ReceiptCode) -> None:
    bench = drafting(1)
    bench.order(1, 1)
    bench.settle()
    (block,) = bench.blocks()
    waits = []
    for _ in range(4):
        bench.answer(Receipt(block.ticket, block.round, block.digest, code))
        waits.append((bench.engine.next_ns() - bench.now_ns) // MS)
        bench.now_ns = bench.engine.next_ns()
        bench.engine.work()
        assert bench.blocks() == [block]
    assert waits == [2, 4, 8, 16]


@pytest.mark.parametrize("code", sorted(set(ReceiptCode) - {ReceiptCode.UNKNOWN, ReceiptCode.FULL}))
def test_other_receipts_leave_the_block_alone(code: ReceiptCode) -> None:
    bench = drafting(1)
    bench.order(1, 1)
    bench.settle()
    (block,) = bench.blocks()
    bench.answer(Receipt(block.ticket, block.round, block.digest, code))
    bench.now_ns += 500 * MS
    bench.engine.work()
    assert bench.blocks() == []
    assert bench.counts() == ({"bad_block": 1} if code is ReceiptCode.BAD else {})


def test_an_outdated_block_is_not_offered_again() -> None:
    bench = drafting(1)
    bench.order(1, 1)
    bench.settle()
    (block,) = bench.blocks()
    bench.answer(Receipt(block.ticket, block.round, block.digest, ReceiptCode.UNKNOWN))
    bench.order(1, 2, (50,))
    bench.settle()
    bench.blocks()
    bench.now_ns += 10 * MS
    bench.engine.work()
    assert bench.blocks() == []


def test_blocks_are_sent_again_when_the_link_comes_back_to_the_same_instance() -> None:
    bench = drafting(1, 2)
    bench.order(1, 1)
    bench.order(2, 1)
    bench.settle()
    first = bench.blocks()
    bench.engine.take(LinkUp("t:1", "T1", bench.now_ns - 1))  # up before they went out
    bench.now_ns += MS
    bench.engine.take(LinkUp("t:1", "T2", bench.now_ns))
    assert bench.blocks() == []
    bench.engine.take(LinkUp("t:1", "T1", bench.now_ns))
    assert bench.blocks() == first


def test_a_new_target_gets_the_block_under_its_ticket() -> None:
    bench = drafting(1)
    assert bench.bindings() == [Bound(1, target(1))]
    bench.order(1, 1)
    bench.settle()
    (block,) = bench.blocks()
    moved = TargetAddress("t:2", "T2", b"n" * 16)
    bench.order(1, 2, (block.ids[0], 50), target=moved)
    assert bench.bindings() == [Bound(1, moved), Released(ticket(1))]
    bench.settle()
    assert [b.ticket for b in bench.blocks()] == [b"n" * 16]
    bench.answer(VerdictNotice(ticket(1), 1, block.digest, 4, 9))
    assert bench.counts()["answer_for_nobody"] == 1


def test_leased_tokens_are_compared_when_idle() -> None:
    bench = drafting(1)
    bench.order(1, 1, gamma=0)
    bench.order(1, 2, tuple(range(20, 28)), gamma=0)
    bench.settle()
    assert bench.events() == [Follow(1, base=8, compared=8, agreed=4)]
    bench.order(1, 3, (40,), gamma=2)
    bench.settle()
    assert [block.ids for block in bench.blocks()] == [(12, 13)]


def test_following_waits_for_others_but_not_for_ever() -> None:
    bench = drafting(1, 2)
    bench.order(1, 1, gamma=0)
    bench.order(1, 2, tuple(range(20, 28)), gamma=0)
    bench.order(2, 1, gamma=16)
    steps = FOLLOW_PATIENCE_NS // (4 * MS)
    for _ in range(steps):
        bench.work(step_ns=4 * MS)
        assert bench.events() == []
    bench.work()
    assert [type(event) for event in bench.events()] == [Follow]


def test_one_bad_session_costs_no_other_its_step() -> None:
    bench = drafting(1, 2)
    bench.order(1, 1, gamma=1)
    bench.order(2, 1, gamma=1)
    bench.fake.meddle = lambda pen: EngineFailure("no numbers") if pen.slot == 0 else None
    bench.work()
    assert [block.ticket for block in bench.blocks()] == [ticket(2)]
    assert bench.events() == [Lost(1, LossCode.RUNNER, "no numbers")]
    assert list(bench.fake.caches) == [1]


BAD_JOB = "temperature: got -1.0, wanted a number from 0"


def test_a_job_that_a_runner_refuses_costs_no_other_its_pass() -> None:
    bench = drafting(1, 2, 3)
    for sid in (1, 2, 3):
        bench.order(sid, 1, gamma=1)
    bench.open(opening(4, (1, 2, 3, 4)), opening(5, (1, 2, 3, 4)))
    bench.fake.refused = {1, 3}
    bench.work()
    assert [block.ticket for block in bench.blocks()] == [ticket(1), ticket(3)]
    assert bench.events() == [
        Lost(2, LossCode.RUNNER, BAD_JOB),
        Lost(4, LossCode.RUNNER, BAD_JOB),
        DraftOpened(5, 1 << 20),
    ]
    assert sorted(bench.fake.caches) == [0, 2, 4]


def test_following_that_a_runner_refuses_costs_no_other_session() -> None:
    bench = drafting(1, 2, 3)
    for sid in (1, 2, 3):
        bench.order(sid, 1, gamma=0)
        bench.order(sid, 2, tuple(range(20, 28)), gamma=0)
    bench.fake.refused = {0}
    bench.settle()
    events = bench.events()
    assert [event for event in events if isinstance(event, Lost)] == [Lost(1, LossCode.RUNNER, BAD_JOB)]
    assert [event.sid for event in events if isinstance(event, Follow)] == [2, 3]


def test_refused_jobs_do_not_end_the_engine() -> None:
    sids = range(2 * FAILURES)
    bench = drafting(*sids)
    bench.fake.refused = set(sids)
    for sid in sids:
        bench.order(sid, 1, gamma=1)
    bench.settle()
    assert bench.events() == [Lost(sid, LossCode.RUNNER, BAD_JOB) for sid in sids]


def test_a_pass_that_fails_costs_its_sessions_only() -> None:
    bench = drafting(1, 2)
    bench.order(1, 1)
    bench.fake.fail = EngineFailure("boom")
    bench.work()
    assert bench.events() == [Lost(1, LossCode.RUNNER, "boom")]
    bench.fake.fail = None
    bench.order(2, 1, gamma=1)
    bench.settle()
    assert len(bench.blocks()) == 1


def test_passes_that_fail_in_a_row_end_the_engine() -> None:
    bench = drafting(*range(FAILURES))
    bench.fake.fail = EngineFailure("boom")
    for sid in range(FAILURES - 1):
        bench.order(sid, 1)
        bench.work()
    bench.order(FAILURES - 1, 1)
    with pytest.raises(EngineFailure, match="3 passes in a row failed"):
        bench.work()


def test_bad_commands_cost_their_session() -> None:
    bench = drafting(1, 2)
    bench.command(BadCommand(1, "advance.tokens: got 9999"), BadCommand(3, "open.law: bad"))
    assert bench.events() == [
        Lost(1, LossCode.PROTOCOL, "advance.tokens: got 9999"),
        Refused(3, RefusalCode.BAD, "open.law: bad"),
    ]
    bench.command(opening(2))
    (lost,) = bench.events()
    assert isinstance(lost, Lost)
    assert lost.message == "sid: got 2 again, wanted each once in a stream"
    bench.close(9)
    assert bench.counts()["command_for_nobody"] == 1


def test_a_gap_loses_the_session() -> None:
    bench = drafting(1)
    bench.output[1] = (0, 0, 0)
    bench.order(1, 1, (9,))
    (lost,) = bench.events()
    assert isinstance(lost, Lost)
    assert lost.code is LossCode.PROTOCOL
    assert bench.bindings()[-1] == Released(ticket(1))


def test_a_stream_ends_with_all_its_sessions() -> None:
    bench = drafting(1, 2)
    bench.open(opening(1), stream=2)
    bench.settle()
    bench.engine.take(StreamEnded(1))
    assert list(bench.fake.caches) == [2]
    assert bench.gauges().sessions == 1


def test_draining_moves_sessions_and_refuses_new_ones() -> None:
    bench = drafting(1)
    bench.engine.take(Drain())
    bench.open(opening(2))
    lost, refused = bench.events()
    assert isinstance(lost, Lost)
    assert lost.code is LossCode.DRAINING
    assert isinstance(refused, Refused)
    assert refused.code is RefusalCode.DRAINING


def test_sessions_beyond_the_room_are_refused_with_a_time_to_ask_again() -> None:
    bench = Bench(policy=Policy(room=Room(sessions=2, tokens=100)))
    bench.open(opening(1), opening(2), opening(3))
    bench.settle()
    assert [e for e in bench.events() if isinstance(e, Refused)] == [
        Refused(3, RefusalCode.FULL, "sessions: 2 are open, wanted fewer than 2", 1000)
    ]
    bench.close(1)
    bench.open(opening(4, tuple(range(98))))
    (refused,) = bench.events()
    assert refused == Refused(4, RefusalCode.FULL, "tokens: 3 are open and 98 more came, wanted at most 100", 1000)


@pytest.mark.parametrize(
    ("message", "code", "text"),
    [
        (opening(1, tuple(range(100))), RefusalCode.TOO_LONG, "tokens: got 100, wanted fewer than 100, the longest"),
        (replace(opening(1), vocabulary_map_digest="ab"), RefusalCode.MISMATCH, "vocabulary_map_digest: got 'ab'"),
        (opening(1, law=LawParameters(bias=((5000, 1.0),))), RefusalCode.BAD, "logit_bias: got 5000"),
    ],
)
def test_what_can_never_fit_is_refused_by_name(message: object, code: RefusalCode, text: str) -> None:
    bench = Bench(policy=Policy(room=Room(tokens=100)))
    bench.open(message)  # type: ignore[arg-type]
    (refused,) = bench.events()
    assert isinstance(refused, Refused)
    assert refused.code is code
    assert refused.message.startswith(text)


def test_caches_of_resting_sessions_are_dropped_and_filled_again() -> None:
    bench = Bench(policy=Policy(chunk=8, room=Room(tokens=40)))
    bench.open(opening(1, tuple(range(18))))
    bench.settle()
    bench.open(opening(2, tuple(range(18))))
    bench.settle()
    bench.order(2, 1, gamma=8)
    bench.settle()
    assert bench.fake.caches[0] == []
    assert bench.counts()["cache_dropped"] == 1
    bench.order(1, 1, gamma=2)
    bench.settle()
    assert [block.ids for block in bench.blocks()][-1] == (18, 19)


def test_a_dropped_cache_is_filled_in_chunks_before_following() -> None:
    bench = Bench(policy=Policy(chunk=16, room=Room(tokens=100)))
    bench.open(opening(1, tuple(range(60))))
    bench.settle()
    bench.open(opening(2, tuple(range(30))))
    bench.settle()
    bench.order(2, 1, gamma=16)
    bench.settle()
    bench.order(2, 2, (1,), gamma=0)
    assert bench.fake.caches[0] == []
    bench.events()
    bench.fake.steps.clear()
    bench.order(1, 1, gamma=0)
    bench.order(1, 2, tuple(range(100, 108)), gamma=0)
    bench.settle()
    assert bench.events() == [Follow(1, base=8, compared=8, agreed=4)]
    assert [len(read) for _, read in bench.fake.steps] == [16, 16, 16, 16]


def test_sessions_that_grow_out_of_the_room_together_are_let_go_youngest_first() -> None:
    """A full cache neither grows past its room nor is filled again every round: somebody decodes without a draft."""
    bench = Bench(policy=Policy(room=Room(tokens=100)))
    bench.open(*(opening(sid, tuple(range(30))) for sid in (1, 2, 3)))
    bench.settle()
    bench.events()
    sids = [1, 2, 3]
    for round in range(1, 21):
        for sid in sids:
            bench.order(sid, round, (7,) * (3 if round > 1 else 0), gamma=2)
        bench.settle()
        for event in bench.events():
            assert isinstance(event, Lost)
            assert event.code is LossCode.EVICTED
            assert "wanted at most 100" in event.message
            assert event.sid == sids.pop(), "the youngest"
        assert sum(map(len, bench.fake.caches.values())) <= 100 + 2 * len(sids)
    assert sids == [1]
    assert bench.counts()["lost_evicted"] == 2
