"""Transitions of a session at a draft: what the tables of docs/protocol.md say, one by one."""

from __future__ import annotations

import pytest

from draft_service.core import reading, writing
from draft_service.core import session as transitions
from draft_service.core.state import Bounds, Count, Free, Phase, Push, Session, Tell
from draft_service.core.writing import Drawn
from foreword.laws.parameters import LawParameters
from foreword.protocol.digest import EMPTY, extend
from foreword.protocol.messages import (
    Advance,
    Block,
    DraftOpened,
    Lost,
    OneHot,
    SparseCounts,
    TargetAddress,
    Tokens,
    VerdictNotice,
)
from foreword.protocol.words import Drafter, LossCode, Rule
from foreword.values import replace
from tests.unit.draft_service.kit import opening, ticket

PROMPT = (1, 2, 3)
COUNTS = SparseCounts((4, 5), (8, 8), 4)
STOP = 99


def order(round: int, tokens: Tokens = (), *, committed: Tokens = (), **fields: object) -> Advance:
    """Return the Advance that commits `tokens` after the `committed` output."""
    values = {"rule": Rule.MATCH, "gamma": 3, **fields}
    output = committed + tokens
    return Advance(1, round, len(output), tokens, extend(EMPTY, PROMPT + output), **values)  # type: ignore[arg-type]


def opened(longest: int = 100) -> Session:
    message = opening(1, PROMPT, law=LawParameters(stop_ids=(STOP,)))
    return transitions.opened(message, Bounds(longest, 8, Drafter.MODEL))


def idle() -> Session:
    session, actions = reading.read(opened(), reading.Read(0, PROMPT[:-1]))
    assert actions == (Tell(DraftOpened(1, 100)),)
    return session


def sent(ids: Tokens = (4, 5, 6), **fields: object) -> tuple[Session, Block]:
    """Return a session whose block of these candidates is out."""
    session, _ = transitions.advanced(idle(), order(1, **fields))
    laws = None if session.order is not None and session.order.rule is Rule.MATCH else (COUNTS,)
    actions: tuple[object, ...] = ()
    for token in ids:
        session, actions = writing.drawn(session, writing.draw(session), Drawn((token,), laws))
    (push,) = actions
    assert isinstance(push, Push)
    return session, push.block


def notice(block: Block, kept: int, emitted: int) -> VerdictNotice:
    return VerdictNotice(block.ticket, block.round, block.digest, kept, emitted)


def test_an_open_is_read_then_told() -> None:
    session = opened()
    assert (session.phase, reading.unread(session)) == (Phase.PREFILL, 2)
    work = reading.next_read(session, 1)
    assert work == reading.Read(0, (1,))
    session, actions = reading.read(session, work)
    assert (session.cached, actions) == (1, ())
    assert idle().phase is Phase.IDLE


def test_orders_during_the_prefill_append_and_wait() -> None:
    session, actions = transitions.advanced(opened(), order(1, (7, 8)))
    assert (session.phase, actions, reading.unread(session)) == (Phase.PREFILL, (), 4)
    session, actions = reading.read(session, reading.next_read(session, 100))
    assert (session.phase, len(actions)) == (Phase.DRAFT, 1)


@pytest.mark.parametrize(("round", "base"), [(1, 0), (0, 5)])
def test_orders_that_are_not_newer_are_ignored(round: int, base: int) -> None:
    session, _ = transitions.advanced(idle(), order(1))
    same, actions = transitions.advanced(session, replace(order(1), round=round, base=base))
    assert same is session
    assert actions == (Count("old_advance"),)


def test_a_block_is_what_was_drawn_for_its_round() -> None:
    session, block = sent()
    assert (block.round, block.base, block.digest, block.ids) == (1, 0, extend(EMPTY, PROMPT), (4, 5, 6))
    assert (session.phase, session.cached, block.law) == (Phase.SENT, 5, None)


@pytest.mark.parametrize("rule", [Rule.TOKEN, Rule.BLOCK])
def test_a_block_has_one_law_a_candidate_or_says_that_all_were_certain(rule: Rule) -> None:
    _, block = sent((4, 5, 4), rule=rule)
    assert block.law == (COUNTS, COUNTS, COUNTS)
    session, _ = transitions.advanced(idle(), order(1, rule=rule))
    _, (push,) = writing.drawn(session, writing.draw(session), Drawn((4, 5, 6), None))
    assert isinstance(push, Push)
    assert push.block.law == OneHot()


@pytest.mark.parametrize(("first", "second"), [(None, (COUNTS,)), ((COUNTS,), None)])
def test_a_block_that_mixes_certain_and_drawn_candidates_is_no_block(
    first: tuple[SparseCounts, ...] | None, second: tuple[SparseCounts, ...] | None
) -> None:
    session, _ = transitions.advanced(idle(), order(1, rule=Rule.TOKEN))
    session, _ = writing.drawn(session, writing.draw(session), Drawn((4,), first))
    with pytest.raises(AssertionError):
        writing.drawn(session, writing.draw(session), Drawn((5,), second))


def test_a_block_that_ends_with_nothing_keeps_its_laws() -> None:
    session, _ = transitions.advanced(idle(), order(1, rule=Rule.TOKEN))
    session, _ = writing.drawn(session, writing.draw(session), Drawn((4,), (COUNTS,)))
    _, (push,) = writing.drawn(session, writing.draw(session), Drawn((), None, stop=True))
    assert isinstance(push, Push)
    assert push.block.law == (COUNTS,)


@pytest.mark.parametrize(("kept", "rows"), [(0, (9,)), (1, (9,)), (3, (6, 9))])
def test_a_verdict_starts_the_next_block_from_what_was_kept(kept: int, rows: Tokens) -> None:
    session, block = sent()
    session, actions = transitions.verdict_came(session, notice(block, kept, 9))
    assert (session.phase, actions) == (Phase.DRAFT, ())
    work = writing.draw(session)
    assert (work.round, work.position, work.rows) == (2, kept + 1, rows)
    assert work.digest == extend(EMPTY, (*PROMPT, *block.ids[:kept], 9))


def test_a_candidate_that_equals_the_emitted_token_is_read_again() -> None:
    session, block = sent()
    session, _ = transitions.verdict_came(session, notice(block, 1, 5))  # block verification may emit what it refused
    assert writing.draw(session).rows == (5,)


def test_an_advance_confirms_what_a_verdict_said() -> None:
    session, block = sent()
    session, _ = transitions.verdict_came(session, notice(block, 3, 9))
    session, _ = writing.drawn(session, writing.draw(session), Drawn((20,), None))
    session, actions = transitions.advanced(session, order(2, (4, 5, 6, 9)))
    assert (session.phase, actions, session.assumed) == (Phase.DRAFT, (), ())
    assert session.context == (*PROMPT, 4, 5, 6, 9, 20)
    assert writing.draw(session).rows == (20,)


@pytest.mark.parametrize("drawn", [(), (30, 31), (30, 31, 32)])
def test_an_advance_that_a_verdict_overtook_only_commits(drawn: Tokens) -> None:
    session, first = sent()
    session, _ = transitions.verdict_came(session, notice(first, 3, 9))
    for token in (20, 21, 22):
        session, _ = writing.drawn(session, writing.draw(session), Drawn((token,), None))
    digest = extend(EMPTY, (*PROMPT, 4, 5, 6, 9))
    session, _ = transitions.verdict_came(session, VerdictNotice(ticket(1), 2, digest, 3, 10))
    for token in drawn:
        session, _ = writing.drawn(session, writing.draw(session), Drawn((token,), None))
    before = session
    session, actions = transitions.advanced(session, order(2, (4, 5, 6, 9)))
    assert actions == ()
    assert (session.phase, session.writing, session.context) == (before.phase, before.writing, before.context)
    assert session.assumed == (20, 21, 22, 10)
    third, _ = transitions.advanced(session, order(3, (20, 21, 22, 10), committed=(4, 5, 6, 9)))
    assert (third.writing, third.assumed) == (before.writing, ())


def test_an_advance_that_contradicts_what_overtook_it_starts_anew() -> None:
    session, first = sent()
    session, _ = transitions.verdict_came(session, notice(first, 3, 9))
    for token in (20, 21, 22):
        session, _ = writing.drawn(session, writing.draw(session), Drawn((token,), None))
    digest = extend(EMPTY, (*PROMPT, 4, 5, 6, 9))
    session, _ = transitions.verdict_came(session, VerdictNotice(ticket(1), 2, digest, 3, 10))
    session, actions = transitions.advanced(session, order(2, (4, 5, 8)))
    assert actions == (Count("verdict_differs"),)
    assert session.context == (*PROMPT, 4, 5, 8)
    assert session.writing is not None
    assert (session.writing.round, writing.draw(session).rows) == (2, (8,))


@pytest.mark.parametrize("tokens", [(4, 9), (4, 5, 6, 8), (4, 5, 6, 9)])
def test_a_verdict_that_is_not_the_orchestrators_is_counted(tokens: Tokens) -> None:
    session, block = sent()
    session, _ = transitions.verdict_came(session, notice(block, 3, 9))
    _, actions = transitions.advanced(session, order(2, tokens))
    assert actions == (() if tokens == (4, 5, 6, 9) else (Count("verdict_differs"),))


def test_a_session_that_moved_may_have_lost_the_result_of_a_verdict() -> None:
    session, block = sent()
    session, _ = transitions.verdict_came(session, notice(block, 3, 9))
    moved = TargetAddress("t:2", "T2", b"n" * 16)
    _, actions = transitions.advanced(session, order(3, (7,), target=moved))
    assert Count("verdict_differs") not in actions


def test_an_advance_with_another_rule_starts_anew() -> None:
    session, block = sent()
    session, _ = transitions.verdict_came(session, notice(block, 3, 9))
    session, _ = writing.drawn(session, writing.draw(session), Drawn((20,), None))
    session, _ = transitions.advanced(session, order(2, (4, 5, 6, 9), rule=Rule.TOKEN))
    assert session.context == (*PROMPT, 4, 5, 6, 9)


def test_a_smaller_block_is_asked_for_and_is_complete() -> None:
    session, block = sent()
    session, _ = transitions.verdict_came(session, notice(block, 3, 9))
    for token in (20, 21):
        session, _ = writing.drawn(session, writing.draw(session), Drawn((token,), None))
    session, (push,) = transitions.advanced(session, order(2, (4, 5, 6, 9), gamma=2))
    assert isinstance(push, Push)
    assert push.block.ids == (20, 21)


@pytest.mark.parametrize("emitted", [STOP, 9])
def test_after_a_stop_id_nothing_is_drafted(emitted: int) -> None:
    session, block = sent((4, 5, STOP) if emitted != STOP else (4, 5, 6))
    session, actions = transitions.verdict_came(session, notice(block, 3, emitted))
    assert (session.phase, actions) == (Phase.IDLE, ())


def test_verdicts_of_other_blocks_are_ignored() -> None:
    session, block = sent()
    for other in (
        replace(notice(block, 0, 9), round=2),
        replace(notice(block, 0, 9), digest=1),
        replace(notice(block, 0, 9), ticket=ticket(7)),
        notice(block, 4, 9),
    ):
        assert transitions.verdict_came(session, other) == (session, (Count("old_verdict"),))
    assert transitions.verdict_came(idle(), notice(block, 0, 9)) == (idle(), ())


def test_a_moved_session_sends_its_block_under_the_new_ticket() -> None:
    session, _ = sent()
    moved = TargetAddress("t:2", "T2", b"n" * 16)
    again, (push,) = transitions.advanced(replace(session, order=order(0)), order(1, target=moved))
    assert isinstance(push, Push)
    assert (push.block.ticket, push.block.ids) == (b"n" * 16, (4, 5, 6))
    assert again.target == moved


def test_gaps_and_other_digests_are_the_end() -> None:
    for wrong in (order(1, (7,), committed=(6,)), replace(order(1, (7,)), digest=5)):
        session, actions = transitions.advanced(idle(), wrong)
        assert session.phase is Phase.GONE
        told, freed = actions
        assert isinstance(told, Tell)
        assert isinstance(told.event, Lost)
        assert told.event.code is LossCode.PROTOCOL
        assert freed == Free(1)
        assert transitions.closed(session) == (session, ())


def test_a_dropped_cache_is_read_again() -> None:
    session, actions = transitions.forgotten(sent()[0])
    assert actions == (Free(1),)
    session, _ = transitions.advanced(session, order(2, (4, 9)))
    assert writing.draw(session).rows == (*PROMPT, 4, 9)


def test_following_compares_only_what_was_leased() -> None:
    session, _ = transitions.advanced(idle(), order(1, gamma=0))
    session, _ = transitions.advanced(session, order(2, tuple(range(10, 17)), gamma=0))
    assert not reading.followable(session)
    session, _ = transitions.advanced(session, order(3, (17,), committed=tuple(range(10, 17)), gamma=0))
    assert reading.followable(session)
    work = reading.compare(session)
    assert (work.count, work.wanted, work.position) == (8, tuple(range(10, 18)), 0)
    assert work.cached + len(work.rows) == len(PROMPT) + 7
    session, (told,) = reading.followed(session, work, 5)
    assert isinstance(told, Tell)
    assert (session.unfollowed, session.cached) == (0, len(PROMPT) + 7)


def test_a_long_stretch_is_compared_in_its_newest_part() -> None:
    session, _ = transitions.advanced(idle(), order(1, gamma=0))
    stretch = tuple(range(10, 10 + reading.FOLLOW_MOST + 20))
    session, _ = transitions.advanced(session, order(2, stretch, gamma=0))
    session = replace(session, bounds=Bounds(1000, 8, Drafter.MODEL))
    work = reading.compare(session)
    assert (work.count, work.position) == (reading.FOLLOW_MOST, 20)
    assert len(work.rows) == len(stretch)


def test_a_session_that_outgrew_the_context_is_neither_read_nor_drafted_nor_followed() -> None:
    session, _ = reading.read(opened(6), reading.Read(0, PROMPT[:-1]))
    session, actions = transitions.advanced(session, order(1, (7, 8, 9, 10)))
    (push,) = actions
    assert isinstance(push, Push)
    assert push.block.ids == ()
    assert reading.unread(session) <= 6 - 1 - session.cached
    session, _ = transitions.advanced(session, order(2, gamma=0, committed=(7, 8, 9, 10)))
    session, _ = transitions.advanced(session, order(3, tuple(range(9)), gamma=0, committed=(7, 8, 9, 10)))
    assert not reading.followable(session)
