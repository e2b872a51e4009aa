"""Pools: who fits, who is trusted, who is least busy, who is told when a peer comes back."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from foreword.errors import ProtocolFault
from foreword.protocol.info import CostPoint, ServerInfo
from foreword.protocol.messages import LinkState, LoadReport, Lost
from foreword.protocol.words import Drafter, LossCode
from orchestrator.control.round import Round
from orchestrator.measure.rounds import RoundParts
from orchestrator.policy import Gamma, MeasuringPolicy, RoundView, WaitLimits
from orchestrator.pools.avoidance import Avoidance
from orchestrator.pools.curve import StepCurve
from orchestrator.pools.drafts import DraftPeer, DraftPool, Trust, Wish
from orchestrator.pools.identity import draft_misfit, target_misfit
from orchestrator.pools.pace import Pace
from orchestrator.pools.targets import TargetPeer, TargetPool
from orchestrator.pools.tickets import Tickets
from tests.unit.orchestrator.world import MODEL

NOBODY: frozenset[str] = frozenset()


class Line:
    def __init__(self, round_trip_us: int | None = None) -> None:
        self._round_trip_us = round_trip_us
        self.sent: list[object] = []

    def send(self, message: object) -> bool:
        self.sent.append(message)
        return True

    def round_trip_us(self) -> int | None:
        return self._round_trip_us


class Member:
    def __init__(self) -> None:
        self.told: list[object] = []
        self.raises: Exception | None = None

    def event(self, event: object, arrived_us: int) -> None:
        if self.raises is not None:
            raise self.raises
        self.told.append(event)

    def fault(self, error: Exception) -> None:
        self.told.append(error)

    def down(self, reason: str) -> None:
        self.event(reason, 0)


def tickets() -> Tickets:
    numbers = itertools.count(1)
    return Tickets(lambda size: next(numbers).to_bytes(size, "big"))


def info(**model: object) -> ServerInfo:
    return ServerInfo(replace(MODEL, **model), "i", "a:1", "0", 1, 1, drafter=Drafter.MODEL)  # type: ignore[arg-type]


def targets(count: int = 2) -> tuple[TargetPool, list[TargetPeer]]:
    peers: list[TargetPeer] = [TargetPeer(f"t{i}:1", tickets(), lambda _: None) for i in range(count)]
    return TargetPool(peers), peers


def test_misfits_name_both_values() -> None:
    assert target_misfit(MODEL, info()) == ""
    assert "'other'" in target_misfit(MODEL, info(name="other"))
    assert "'m'" in target_misfit(MODEL, info(name="other"))
    text = target_misfit(replace(MODEL, weights_digest="a" * 64), info(weights_digest="b" * 64 + "#layers=4"))
    assert "bbbbbbbbbbbb#layers=4" in text
    assert "aaaaaaaaaaaa" in text
    assert target_misfit(MODEL, info(dtype="bfloat16")) == "dtype: the target runs bfloat16, the others run float32"
    text = draft_misfit(MODEL, info(name="small", vocabulary_size=49))
    assert "49 ids" in text
    assert "50" in text
    text = draft_misfit(MODEL, info(name="small", tokenizer_digest="f" * 64))
    assert "ffffffffffff" in text
    assert "digest" in text
    assert draft_misfit(MODEL, replace(info(), model=None)) == ""
    assert target_misfit(MODEL, replace(info(), model=None)) != ""


def test_the_first_target_says_which_model_is_served() -> None:
    pool, (first, second) = targets()
    assert pool.misfit(info()) == ""
    pool.came_up(first, Line(), info(), "i")
    assert pool.model == MODEL
    assert "'other'" in pool.misfit(info(name="other"))
    assert not second.up


def test_the_least_busy_then_the_nearest_target_is_chosen() -> None:
    pool, (first, second) = targets()
    assert pool.choose(NOBODY) is None
    pool.came_up(first, Line(900), info(), "i")
    pool.came_up(second, Line(100), info(), "j")
    assert pool.choose(NOBODY) is second
    second.join(Member())
    assert pool.choose(NOBODY) is first
    assert pool.choose(frozenset({"t0:1"})) is second
    first.received([(None, LoadReport(sessions=7, waiting=2))], 0)
    assert first.busy == 9
    assert pool.choose(NOBODY) is second


def test_events_find_their_sessions_and_late_ones_nobody() -> None:
    counts: list[str] = []
    peer: TargetPeer = TargetPeer("t:1", tickets(), counts.append)
    one, other = Member(), Member()
    first, second = peer.join(one), peer.join(other)
    lost = Lost(first, LossCode.EVICTED, "no room")
    peer.received([(first, lost), (second, ProtocolFault("broken")), (99, lost), (None, ProtocolFault("x"))], 5)
    assert one.told == [lost]
    assert isinstance(other.told[0], ProtocolFault)
    assert counts == ["unreadable_event", "event_of_unknown_session", "unreadable_event"]
    peer.leave(first)
    peer.received([(first, lost)], 6)
    assert one.told == [lost]
    assert peer.join(one) > second


def test_a_defect_while_an_event_is_taken_costs_one_session() -> None:
    counts: list[str] = []
    peer: TargetPeer = TargetPeer("t:1", tickets(), counts.append)
    bad, good = Member(), Member()
    bad.raises = ZeroDivisionError("oops")
    lost = Lost(0, LossCode.EVICTED, "")
    peer.received([(peer.join(bad), lost), (peer.join(good), lost)], 0)
    assert isinstance(bad.told[0], ProtocolFault)
    assert good.told == [lost]
    assert counts == ["failed_event"]
    peer.went_down("gone")
    assert isinstance(bad.told[1], ProtocolFault)
    assert good.told == [lost, "gone"]


def test_a_defect_while_news_of_a_link_is_taken_costs_nobody_else() -> None:
    def broken(_: LinkState) -> None:
        raise ZeroDivisionError("oops")

    counts: list[str] = []
    known, heard = tickets(), list[LinkState]()
    peer: TargetPeer = TargetPeer("t:1", known, counts.append)
    bad, good = (LinkState(known.mint(listener), "i", up=False) for listener in (broken, heard.append))
    peer.received([(None, bad), (None, good)], 0)
    assert heard == [good]
    assert counts == ["failed_event"]


def test_a_link_that_ends_tells_all_sessions_once() -> None:
    pool, (peer, _) = targets()
    pool.came_up(peer, Line(), info(), "i")
    members = [Member(), Member()]
    for member in members:
        peer.join(member)
    peer.went_down("burned")
    peer.went_down("still down")
    assert [m.told for m in members] == [["burned"], ["burned"]]
    assert (peer.up, peer.last_error) == (False, "still down")


def test_link_states_go_to_whom_the_ticket_belongs() -> None:
    book, told = tickets(), list[LinkState]()
    ticket = book.mint(told.append)
    report = LinkState(ticket, "i", up=False)
    assert book.tell(report)
    book.drop(ticket)
    assert not book.tell(report)
    assert told == [report]


def drafts(trust: Trust | None = None) -> tuple[DraftPool, list[DraftPeer]]:
    peers: list[DraftPeer] = [DraftPeer(f"d{i}:1", tickets(), lambda _: None) for i in range(3)]
    pool = DraftPool(trust or Trust(), peers)
    pool.came_up(peers[0], Line(), info(name="big"), "i")
    pool.came_up(peers[1], Line(), replace(info(), model=None, drafter=Drafter.LOOKUP), "j")
    return pool, peers


@pytest.mark.parametrize(
    ("wish", "chosen"),
    [
        (Wish(), 0),
        (Wish(drafter=Drafter.LOOKUP), 1),
        (Wish(name="big"), 0),
        (Wish(name="small"), None),
        (Wish(trusted=True), 1),
        (Wish(drafter=Drafter.MODEL, trusted=True), None),
    ],
)
def test_drafts_are_chosen_by_wish(wish: Wish, chosen: int | None) -> None:
    pool, peers = drafts(Trust(sources=frozenset({"d1:1"})))
    assert pool.choose(wish, MODEL, NOBODY) is (None if chosen is None else peers[chosen])


def test_a_draft_that_does_not_fit_is_not_chosen() -> None:
    pool, peers = drafts()
    other = replace(MODEL, tokenizer_digest="other")
    assert pool.choose(Wish(), other, NOBODY) is peers[1]
    assert pool.choose(Wish(), other, frozenset({"d1:1"})) is None


def test_those_who_wait_are_told_once_and_may_wait_again() -> None:
    pool, peers = drafts()
    calls: list[str] = []

    def again() -> None:
        calls.append("b")
        pool.waiting.add("b", again)

    pool.waiting.add("a", lambda: calls.append("a"))
    pool.waiting.add("gone", lambda: calls.append("gone"))
    pool.waiting.add("b", again)
    pool.waiting.remove("gone")
    pool.came_up(peers[2], Line(), info(), "k")
    pool.came_up(peers[2], Line(), info(), "k")
    assert calls == ["a", "b", "b"]


def test_pace_lets_some_in_and_the_rest_in_order() -> None:
    pace, started = Pace(2), list[int]()

    def start(number: int) -> Callable[[], None]:
        return lambda: started.append(number)

    for number in range(4):
        pace.enter(start(number))
    assert started == [0, 1]
    pace.leave()
    assert started == [0, 1, 2]
    for _ in range(3):
        pace.leave()
    assert started == [0, 1, 2, 3]


def test_pace_gets_past_any_number_that_give_their_room_back_at_once() -> None:
    pace, started = Pace(2), list[int]()

    def over(number: int) -> Callable[[], None]:
        def run() -> None:
            started.append(number)
            pace.leave()  # its client went away in the queue, or the last target went down

        return run

    pace.enter(lambda: None)
    pace.enter(lambda: None)
    for number in range(5_000):
        pace.enter(over(number))
    pace.leave()
    assert started == list(range(5_000))
    pace.leave()
    assert pace._running == 0


def test_avoidance_ends_and_for_good_does_not() -> None:
    avoidance = Avoidance()
    avoidance.add("a", 100)
    avoidance.add("b")
    avoidance.add("b", 50)
    assert avoidance.now(99) == {"a", "b"}
    assert avoidance.now(100) == {"b"}
    assert avoidance.next_us(["a", "b"]) == 100
    assert avoidance.next_us(["b"]) == math.inf
    assert avoidance.next_us([]) == math.inf
    assert avoidance.next_us(["c"]) == 0


@pytest.mark.parametrize(
    ("lag", "lags", "wait"), [(None, 0, 1_000_000), (10_000, 3, 1_000_000), (10_000, 8, 35_000), (-500, 64, 5_000)]
)
def test_the_wait_follows_the_block_lags_between_bounds(lag: int | None, lags: int, wait: int) -> None:
    view = RoundView(0, lag, lags, draft_round_trip_us=300)
    plan = MeasuringPolicy(WaitLimits()).session(Gamma(fixed=4)).plan(view)
    assert (plan.gamma, plan.wait_us) == (4, wait)
    assert plan.send_by_us is not None
    assert 5_000 <= plan.send_by_us <= max(5_000, wait - 300)


def test_gamma_zero_is_a_lease_without_any_draft() -> None:
    plan = MeasuringPolicy(WaitLimits()).session(Gamma(fixed=0)).plan(RoundView(0, local=Drafter.LOOKUP))
    assert (plan.gamma, plan.local) == (0, None)


def test_blocks_end_where_a_candidate_costs_more_than_it_brings() -> None:
    """Here a round takes 80 ms and a candidate 4: it has to survive with 4 times the tokens a millisecond."""
    parts = RoundParts(0, 16_000, None, None, 0, 20_000, 0)
    plans = [MeasuringPolicy(WaitLimits(), stops=stops).session(Gamma(fixed=4)) for stops in (True, False)]
    for number, made in itertools.product(range(40), plans):
        made.answered(Round(number * 80_000, 80_000, 4, 4, 3, parts))
    with_rule, without = (made.plan(RoundView(3_200_000)) for made in plans)
    tokens_ms = plans[0].choice.rates[4] * 1000
    assert 0.04 < tokens_ms < 0.06
    assert with_rule.stop_threshold == pytest.approx(4 * tokens_ms / 0.75, rel=0.1)
    assert without.stop_threshold == without.lookup_threshold == with_rule.lookup_threshold == 0.0
    priced = MeasuringPolicy(WaitLimits()).session(Gamma(fixed=4))
    for number in range(40):
        priced.answered(Round(number * 80_000, 80_000, 4, 4, 3, parts))
    plan = priced.plan(RoundView(3_200_000, price=0.03))
    # A candidate that is looked up takes its row alone.
    assert plan.lookup_threshold == pytest.approx(0.03 / 0.75, rel=0.1)
    assert plan.stop_threshold > with_rule.stop_threshold


def test_rows_take_what_the_curve_says() -> None:
    assert StepCurve().added_us(4, 3) == StepCurve([CostPoint(1, 32, 15_000)]).added_us(4, 3) == 0.0
    points = (
        (1, 32, 15_000),
        (2, 32, 15_500),
        (8, 32, 29_000),
        (8, 512, 60_000),
        (64, 32, 200_600),
        (128, 32, 200_000),
    )
    curve = StepCurve(CostPoint(*point) for point in points)
    found = [curve.added_us(rows, 1) for rows in (1, 2, 5, 8, 20, 64, 100, 500)]
    assert found == pytest.approx([500, 500, 2250, 2250, 3064.3, 3064.3, 0, 0], abs=0.1)
    assert curve.added_us(9, 8) == pytest.approx(14_000 + 3064.3, abs=0.1)  # the first of them, and one that costs more
    assert curve.added_us(64, 0) == 0.0
