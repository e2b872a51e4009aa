"""The session driver against real cores of targets and drafts, in virtual time."""

from __future__ import annotations

import pytest

from foreword.errors import EngineFailure, Full, InvalidField, Mismatch, Unavailable
from foreword.laws.parameters import Grammar
from foreword.protocol.messages import Advance, Commit, DraftClose, LinkState, TargetClose, TargetOpen, Trace
from foreword.protocol.words import FinishReason, LossCode, RefusalCode
from foreword.values import replace
from orchestrator.core.state import Phase
from orchestrator.sessions.limits import SessionLimits
from tests.unit.orchestrator.world import Recorder, World, guess, refusal, text_after

PROMPT = (1, 2, 3)


def check(recorder: Recorder, count: int = 40, resumed: int = 0) -> None:
    assert recorder.error is None
    assert tuple(recorder.tokens) == text_after(PROMPT, count)[resumed:]
    assert recorder.end is not None


def test_text_is_the_targets_with_and_without_a_draft() -> None:
    for drafts in (0, 1):
        world = World(drafts=drafts)
        _, recorder = world.drive()
        world.clock.run()
        check(recorder)
        assert recorder.end.reason is FinishReason.LENGTH
        assert (max(recorder.gammas) == 4) == bool(drafts)
        assert recorder.late == 0


def test_speculation_needs_fewer_steps() -> None:
    world = World()
    _, recorder = world.drive()
    world.clock.run()
    assert len(recorder.bases) < 20
    assert recorder.places.drafts == recorder.places.targets == 1


@pytest.mark.parametrize("drafts", [0, 1])
def test_a_text_ends_where_its_target_has_no_more_room(drafts: int) -> None:
    world = World(drafts=drafts)
    world.fake_targets[0].longest_length = len(PROMPT) + 17
    _, recorder = world.drive()
    world.clock.run()
    check(recorder, 17)
    assert recorder.end.reason is FinishReason.LENGTH
    assert recorder.places.targets == 1


def test_gamma_zero_is_one_lease_and_asks_no_draft() -> None:
    world = World()
    _, recorder = world.drive(gamma=0)
    world.clock.run()
    check(recorder)
    assert world.fake_drafts[0].sent == []
    assert [type(c) for c in world.fake_targets[0].sent] == [TargetOpen, TargetClose]


def test_draft_killed_in_mid_request_nothing_lost_and_another_takes_over() -> None:
    world = World(drafts=2)
    _, recorder = world.drive()
    world.clock.run_for(150_000)
    first = next(d for d in world.fake_drafts if d.sessions)
    first.kill()
    world.clock.run()
    check(recorder)
    assert recorder.places.drafts == 2
    assert recorder.gammas[-2] > 0


def test_draft_that_comes_back_is_used_again() -> None:
    world = World()
    _, recorder = world.drive(world.session(max_output=120))
    world.clock.run_for(150_000)
    world.fake_drafts[0].kill()
    world.clock.run_for(100_000)
    world.fake_drafts[0].start()
    world.clock.run()
    check(recorder, 120)
    assert recorder.places.drafts == 2


@pytest.mark.parametrize("when_us", range(0, 200_000, 7_300))
def test_draft_killed_at_any_moment(when_us: int) -> None:
    world = World(drafts=2)
    _, recorder = world.drive()
    world.clock.run_for(when_us)
    for draft in world.fake_drafts:
        draft.kill()
    world.clock.run_for(30_000)
    world.fake_drafts[1].start()
    world.clock.run()
    check(recorder)


@pytest.mark.parametrize("when_us", range(0, 200_000, 7_300))
def test_target_lost_at_any_moment_is_replaced_and_positions_go_on(when_us: int) -> None:
    world = World(targets=2)
    _, recorder = world.drive()
    world.clock.run_for(when_us)
    lost = next(t for t in world.fake_targets if t.peer._members)
    lost.kill()
    world.clock.run()
    check(recorder)
    other = next(t for t in world.fake_targets if t is not lost)
    opened = next(c for c in other.sent if isinstance(c, TargetOpen))
    assert opened.prompt_len == len(PROMPT)
    assert recorder.bases == sorted(recorder.bases)


def test_eviction_opens_again_on_the_only_target() -> None:
    world = World()
    _, recorder = world.drive()
    for _ in range(3):
        world.clock.run_for(130_000)
        world.fake_targets[0].lose()
    world.clock.run()
    check(recorder)
    assert recorder.places.targets == 4


def test_every_open_says_all_of_the_request() -> None:
    world = World()
    session = world.session()
    request = replace(session.request, cache_salt=b"mine", top_logprobs=2, trace=Trace("00-1-2-01"))
    _, recorder = world.drive(replace(session, request=request))
    world.clock.run_for(130_000)
    world.fake_targets[0].lose()
    world.clock.run()
    check(recorder)
    opened = [c for c in world.fake_targets[0].sent if isinstance(c, TargetOpen)]
    assert [len(c.tokens) > c.prompt_len for c in opened] == [False, True]
    for message in opened:
        assert (message.law, message.keys, message.max_output) == (request.law, request.target_keys, 40)
        assert (message.cache_salt, message.top_logprobs, message.trace) == (b"mine", 2, request.trace)


def test_rounds_are_never_used_again_after_a_loss() -> None:
    world = World()
    _, recorder = world.drive()
    world.clock.run_for(150_000)
    before = [c.round for c in world.fake_targets[0].sent if isinstance(c, Commit)]
    world.fake_targets[0].kill()
    world.fake_targets[0].start()
    world.clock.run()
    check(recorder)
    after = [c.round for c in world.fake_targets[0].sent if isinstance(c, Commit)]
    assert min(after) > max(before)


def test_no_target_within_the_budget_fails_with_the_last_reason() -> None:
    world = World(limits=SessionLimits(target_us=500_000))
    _, recorder = world.drive()
    world.clock.run_for(100_000)
    world.fake_targets[0].kill("it burned")
    world.clock.run_for(450_000)
    assert recorder.error is None
    world.clock.run_for(60_000)
    assert isinstance(recorder.error, Unavailable)
    assert "it burned" in recorder.error.message


def test_engine_failure_is_told_as_such() -> None:
    world = World(limits=SessionLimits(target_us=500_000))
    _, recorder = world.drive()
    world.clock.run_for(60_000)
    world.fake_targets[0].lose(LossCode.RUNNER)
    world.clock.run()
    check(recorder)

    world = World(limits=SessionLimits(target_us=0))
    _, recorder = world.drive()
    world.clock.run_for(60_000)
    world.fake_targets[0].lose(LossCode.RUNNER)
    world.clock.run()
    assert isinstance(recorder.error, EngineFailure)


@pytest.mark.parametrize("drafts", [0, 1])
@pytest.mark.parametrize("targets", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 10])
def test_a_law_that_cannot_be_computed_anywhere_ends_the_request_with_its_reason(
    targets: int, drafts: int, count: int
) -> None:
    world = World(targets=targets, drafts=drafts)
    for target in world.fake_targets:
        target.lawless = (*PROMPT, *text_after(PROMPT, count)).__eq__
    driver, recorder = world.drive()
    world.clock.run_for(2_000_000)
    assert isinstance(recorder.error, Mismatch)
    assert not recorder.error.retryable
    assert "no token left" in recorder.error.message
    assert tuple(recorder.tokens) == text_after(PROMPT, count)
    assert driver.session.phase is Phase.DONE
    opens = [sum(isinstance(c, TargetOpen) for c in target.sent) for target in world.fake_targets]
    assert sorted(opens, reverse=True) == ([2] if targets == 1 else [1, 1, 0][:targets])
    world.clock.run()
    assert world.clock.waiting == 0
    assert not any(server.peer._members for server in (*world.fake_targets, *world.fake_drafts))


@pytest.mark.parametrize("drafts", [0, 1])
@pytest.mark.parametrize("grammar", [None, Grammar.regex("ab")])
def test_where_nothing_may_come_no_other_target_is_asked(grammar: Grammar | None, drafts: int) -> None:
    world = World(targets=2, drafts=drafts)
    for target in world.fake_targets:
        target.lawless = (*PROMPT, *text_after(PROMPT, 10)).__eq__
        target.lawless_code = LossCode.DEAD_END
    session = world.session()
    law = replace(session.request.law, grammar=grammar, banned_ids=(1, 2))
    _, recorder = world.drive(replace(session, request=replace(session.request, law=law)))
    world.clock.run_for(2_000_000)
    assert isinstance(recorder.error, InvalidField)
    named = ("law.banned_ids", "2 ids") if grammar is None else ("law.grammar", "regex")
    assert (recorder.error.field, recorder.error.seen, recorder.error.wanted) == (*named, "no token left")
    assert tuple(recorder.tokens) == text_after(PROMPT, 10)
    opens = [sum(isinstance(c, TargetOpen) for c in target.sent) for target in world.fake_targets]
    assert sorted(opens) == [0, 1]
    world.clock.run()
    assert world.clock.waiting == 0


def test_a_target_that_alone_computes_no_laws_costs_no_request() -> None:
    world = World(targets=2)
    world.targets.pace._at_once = 1
    world.fake_targets[0].lawless = lambda _: True
    recorders = [world.drive()[1] for _ in range(60)]
    world.clock.run()
    for recorder in recorders:
        check(recorder)
    assert {recorder.places.targets for recorder in recorders} == {1, 2}


@pytest.mark.parametrize("targets", [1, 2])
@pytest.mark.parametrize("local", [False, True])
def test_a_candidate_behind_which_there_is_no_law_costs_time_alone(targets: int, local: bool) -> None:
    right = (*PROMPT, *text_after(PROMPT, 40))
    world = World(targets=targets, drafts=int(not local), local=guess if local else None)
    for target in world.fake_targets:
        target.lawless = lambda tokens: tokens != right[: len(tokens)]
    _, recorder = world.drive()
    world.clock.run()
    check(recorder)
    assert recorder.places.targets > 1


def test_new_session_that_all_targets_turn_away_is_told_so_at_once() -> None:
    world = World(targets=2)
    for target, retry_ms in zip(world.fake_targets, (700, 300), strict=True):
        target.refuse = refusal(RefusalCode.FULL, retry_ms)
    _, recorder = world.drive()
    world.clock.run_for(50_000)
    assert isinstance(recorder.error, Full)
    assert recorder.error.retry_after_ms == 300
    assert [sum(isinstance(c, TargetOpen) for c in target.sent) for target in world.fake_targets] == [1, 1]


def test_session_that_was_served_keeps_asking_full_targets() -> None:
    world = World(limits=SessionLimits(target_us=500_000))
    _, recorder = world.drive()
    world.clock.run_for(150_000)
    world.fake_targets[0].refuse = refusal(RefusalCode.FULL, 50)
    world.fake_targets[0].lose(LossCode.RUNNER)
    world.clock.run_for(200_000)
    world.fake_targets[0].refuse = None
    world.clock.run()
    check(recorder)

    _, recorder = world.drive()
    world.clock.run_for(150_000)
    world.fake_targets[0].refuse = refusal(RefusalCode.FULL, 50)
    world.fake_targets[0].lose(LossCode.RUNNER)
    world.clock.run()
    assert isinstance(recorder.error, Full)
    assert recorder.error.retry_after_ms == 50


def test_target_that_starts_is_asked_again() -> None:
    world = World(limits=SessionLimits(target_us=500_000))
    world.fake_targets[0].refuse = refusal(RefusalCode.STARTING, 50)
    _, recorder = world.drive()
    world.clock.run_for(200_000)
    world.fake_targets[0].refuse = None
    world.clock.run()
    check(recorder)
    assert not world.fake_targets[0].peer.draining


def test_a_target_that_was_full_and_starts_again_is_not_full() -> None:
    world = World(targets=2)
    first, second = world.fake_targets
    first.refuse, second.refuse = refusal(RefusalCode.FULL, 50), refusal(RefusalCode.STARTING, 100)
    _, recorder = world.drive()
    world.clock.run_for(40_000)
    first.refuse, second.refuse = refusal(RefusalCode.STARTING, 200), refusal(RefusalCode.FULL, 60_000)
    world.clock.run_for(150_000)
    assert recorder.error is None
    first.refuse = None
    world.clock.run()
    check(recorder)


def test_full_target_is_left_for_another_at_once() -> None:
    world = World(targets=2)
    world.fake_targets[0].refuse = refusal(RefusalCode.FULL, 60_000)
    _, recorder = world.drive()
    world.clock.run_for(1_100_000)
    check(recorder)


def test_a_target_that_shuts_down_is_not_asked_again() -> None:
    world = World(targets=2)
    _, recorder = world.drive()
    world.clock.run_for(150_000)
    leaving = next(t for t in world.fake_targets if t.sessions)
    leaving.refuse = refusal(RefusalCode.DRAINING)
    leaving.lose(LossCode.DRAINING)
    world.clock.run_for(1_000)
    later = [world.drive()[1] for _ in range(4)]
    world.clock.run()
    for each in (recorder, *later):
        check(each)
    assert sum(isinstance(c, TargetOpen) for c in leaving.sent) == 1
    assert leaving.peer.describe(trusted=True).last_error == "shutting down"


def test_refusal_for_good_fails_at_once() -> None:
    world = World()
    world.fake_targets[0].refuse = refusal(RefusalCode.TOO_LONG)
    _, recorder = world.drive()
    world.clock.run_for(2_000)
    assert isinstance(recorder.error, InvalidField)


def test_session_that_is_too_long_for_the_target_left_waits_for_the_one_that_had_it() -> None:
    world = World(targets=2)
    _, recorder = world.drive()
    world.clock.run_for(150_000)
    home = next(t for t in world.fake_targets if t.sessions)
    other = next(t for t in world.fake_targets if t is not home)
    other.longest_length = 4
    home.kill()
    world.clock.run_for(500_000)
    assert sum(isinstance(c, TargetOpen) for c in other.sent) == 1
    assert recorder.error is None
    home.start()
    world.clock.run()
    check(recorder)


def test_session_that_is_too_long_for_all_that_are_left_fails_as_what_it_is() -> None:
    """The client's prompt was right: it is the deployment that has no place for it any more."""
    world = World(targets=2)
    _, recorder = world.drive()
    world.clock.run_for(150_000)
    home = next(t for t in world.fake_targets if t.sessions)
    for target in world.fake_targets:
        target.longest_length = 4
    home.kill()
    world.clock.run()
    assert isinstance(recorder.error, Unavailable)
    assert any(target.address in recorder.error.message for target in world.fake_targets)


def test_stuck_target_is_given_up_after_the_hard_limit() -> None:
    world = World(targets=2, limits=SessionLimits(round_us=300_000))
    _, recorder = world.drive()
    world.clock.run_for(100_000)
    stuck = next(t for t in world.fake_targets if t.sessions)
    stuck.stuck = True
    world.clock.run()
    check(recorder)
    assert any(isinstance(c, TargetClose) for c in stuck.sent)


def test_cancel_ends_the_session_at_both_engines_at_once() -> None:
    world = World()
    driver, recorder = world.drive()
    world.clock.run_for(150_000)
    driver.abort()
    assert isinstance(world.fake_targets[0].sent[-1], TargetClose)
    assert isinstance(world.fake_drafts[0].sent[-1], DraftClose)
    world.clock.run_for(30_000)
    assert recorder.end.reason is FinishReason.ABORT
    assert not world.fake_targets[0].sessions
    assert not world.fake_drafts[0].sessions
    assert not world.fake_targets[0].peer._members
    assert world.clock.run() < 20


def test_stop_text_ends_with_its_length() -> None:
    world = World()
    _, recorder = world.drive(recorder=Recorder(stop_at=11))
    world.clock.run()
    assert recorder.end.reason is FinishReason.STOP
    close = world.fake_targets[0].sent[-1]
    assert isinstance(close, TargetClose)
    assert close.final_length == 11


def test_slow_client_holds_the_session_and_loses_nothing() -> None:
    world = World()
    driver, recorder = world.drive()
    world.clock.run_for(150_000)
    driver.client_full()
    world.clock.run_for(1_000_000)
    assert driver.session.phase is Phase.HELD
    held = len(recorder.tokens)
    world.clock.run_for(60_000_000)
    assert len(recorder.tokens) == held
    driver.client_drained()
    world.clock.run()
    check(recorder)
    assert recorder.places.targets == 1
    assert recorder.late == 0


def test_slow_client_ends_a_lease_and_the_next_one_goes_on() -> None:
    world = World(drafts=0)
    driver, recorder = world.drive()
    world.clock.run_for(150_000)
    driver.client_full()
    world.clock.run_for(1_000_000)
    assert driver.session.phase is Phase.HELD
    driver.client_drained()
    world.clock.run()
    check(recorder)


def test_held_session_survives_the_loss_of_its_target() -> None:
    world = World(targets=2)
    driver, recorder = world.drive()
    world.clock.run_for(150_000)
    driver.client_full()
    world.clock.run_for(1_000_000)
    next(t for t in world.fake_targets if t.sessions).kill()
    world.clock.run_for(1_000_000)
    assert driver.session.phase is Phase.HELD
    driver.client_drained()
    world.clock.run()
    check(recorder)


@pytest.mark.parametrize(("fault", "late"), [("slow", range(2, 7)), ("empty", range(1))])
def test_a_draft_that_helps_nobody_becomes_suspect_and_plain_decoding_goes_on(fault: str, late: range) -> None:
    """Its blocks come too late, or in time and empty: those are verified, and are not late."""
    world = World()
    setattr(world.fake_drafts[0], fault, True)
    _, recorder = world.drive()
    world.clock.run_for(60_000_000)
    check(recorder)
    assert world.counts["suspect"] >= 1
    assert recorder.late in late


def test_draft_is_tried_again_when_the_targets_news_of_a_lost_link_comes_last() -> None:
    world = World()
    driver, recorder = world.drive(world.session(max_output=120))
    world.clock.run_for(150_000)
    target, draft = world.fake_targets[0], world.fake_drafts[0]
    ticket = driver.session.draft.target.ticket
    draft.tell(None, LinkState(ticket, target.instance, up=False))
    draft.tell(None, LinkState(ticket, target.instance, up=True))
    world.clock.run_for(50_000)
    target.tell(None, LinkState(ticket, target.instance, up=False))  # it noticed after the draft had dialled again
    world.clock.run()
    check(recorder, 120)
    assert 0 in recorder.gammas
    assert recorder.gammas[-2] > 0


def test_suspect_draft_is_left_for_a_better_one() -> None:
    world = World(drafts=2)
    _, recorder = world.drive()
    world.clock.run_for(100_000)
    bad = next(d for d in world.fake_drafts if d.sessions)
    bad.silent_to_target = True
    world.clock.run_for(60_000_000)
    check(recorder)
    assert recorder.places.drafts == 2
    assert any(isinstance(c, DraftClose) for c in bad.sent)


def test_resumed_session_keeps_the_length_of_its_prompt() -> None:
    world = World()
    _, recorder = world.drive(world.session(resume=15))
    world.clock.run()
    check(recorder, resumed=15)
    opened = world.fake_targets[0].sent[0]
    assert isinstance(opened, TargetOpen)
    assert (opened.prompt_len, len(opened.tokens)) == (3, 18)


def test_sends_come_before_the_output() -> None:
    world = World()
    driver, recorder = world.drive()
    sent_at_emit: list[int] = []
    keep = recorder.decided

    def decided(item):  # type: ignore[no-untyped-def]
        rounds = [c.base for c in world.fake_targets[0].sent if isinstance(c, Commit)]
        advances = [c.base for c in world.fake_drafts[0].sent if isinstance(c, Advance)]
        sent_at_emit.append(max(rounds[-1:] + advances[-1:], default=-1))
        return keep(item)

    recorder.decided = decided  # type: ignore[method-assign]
    world.clock.run()
    check(recorder)
    ends = [base + count for base, count in zip(recorder.bases[1:], [0] * 99, strict=False)]
    assert all(sent >= end for sent, end in zip(sent_at_emit[:-1], ends, strict=True))
    assert driver.session.phase is Phase.DONE


def test_many_sessions_of_a_lost_target_all_go_on() -> None:
    world = World(targets=2, drafts=2)
    recorders = [world.drive()[1] for _ in range(12)]
    world.clock.run_for(200_000)
    world.fake_targets[0].kill()
    world.clock.run_for(3_000)
    unanswered = sum(1 for c in world.fake_targets[1].sent if isinstance(c, TargetOpen))
    assert unanswered <= 6 + 2
    world.clock.run_for(100_000)
    world.fake_targets[0].start()
    world.clock.run()
    for recorder in recorders:
        check(recorder)


def test_no_timer_is_left_behind() -> None:
    world = World()
    world.drive()
    world.clock.run()
    assert world.clock.waiting == 0
    assert world.clock.now_us() < 2_000_000
    assert not world.tickets._listeners
