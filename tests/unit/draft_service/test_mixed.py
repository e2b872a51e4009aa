"""The mixed drafter: which part writes a block, and that the other one reads along."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from draft_service.core.writing import Drawn
from draft_service.drafters import mixed
from draft_service.drafters.lookup import LookupStyle
from draft_service.drafters.mixed import READ_ALONG, MixedDrafter
from draft_service.drafters.pen import Pen
from draft_service.drafters.port import CompareJob
from draft_service.engine.admission import Room
from draft_service.engine.costs import REPEATS, SESSIONS, measure_costs
from draft_service.engine.engine import Policy
from foreword.errors import EngineFailure, ForewordError
from foreword.laws.parameters import LawParameters
from foreword.protocol.messages import Block, Follow, Lost, OneHot, Tokens
from foreword.protocol.words import Drafter, Rule
from tests.unit.draft_service.kit import MS, Bench, FakeDrafter, opening
from tests.unit.draft_service.models import drafter as synthetic

REPEATING = (1, 2, 3, 4, 5, 1, 2, 3)
FRESH = (11, 12, 13)


class FakeModel(FakeDrafter):
    """Draws the context's length, checks that its cache is the whole context, and guesses what is told."""

    guess: bool = False

    def guessed(self, jobs: Sequence[CompareJob]) -> list[tuple[bool, ...] | ForewordError]:
        self.compare(jobs)
        for job in jobs:
            assert tuple(self.caches[job.slot]) == job.session.context[:-1]
        return [(self.guess,) * job.compare.count for job in jobs]


class Mixed(Bench):
    """A bench whose mixed drafter has a model that takes `step_ns`, and a target that takes `wait_ns`."""

    def __init__(self, *, step_ns: int = MS, wait_ns: int = 20 * MS, policy: Policy | None = None) -> None:
        self.model = FakeModel()
        self.model.during = lambda: setattr(self, "now_ns", self.now_ns + step_ns)
        self.mixed = MixedDrafter(LookupStyle(), self.model, lambda: self.now_ns)
        super().__init__(self.mixed, policy)
        self.wait_ns = wait_ns
        self.round = 0

    def start(self, tokens: Tokens) -> None:
        self.open(opening(1, tokens))
        self.settle()

    def next(self, came: Tokens = (), **fields: object) -> Block:
        """Commit what came, and return the next block."""
        self.round += 1
        self.now_ns += self.wait_ns
        self.order(1, self.round, came, **fields)
        self.settle()
        return self.blocks()[-1]


def test_a_text_that_repeats_gets_lookup_blocks_and_another_gets_model_blocks() -> None:
    bench = Mixed()
    bench.start(REPEATING)
    first = bench.next()
    assert (first.ids, first.drafter) == ((4, 5, 1, 2), Drafter.LOOKUP)
    second = bench.next((*first.ids, 99))
    assert (second.ids, second.drafter) == ((13, 14, 15, 16), Drafter.MODEL)
    third = bench.next((*second.ids, 3, 4, 5, 1))
    assert (third.ids, third.drafter) == ((2, 99, 13, 14), Drafter.LOOKUP)


def test_lookup_goes_on_where_a_model_would_not() -> None:
    """What is looked up costs a row of the target's step, and a model's candidates the time of its passes too."""
    lengths = []
    for lookup_threshold in (0.0, 0.9):
        bench = Mixed()
        bench.start((*range(1, 20), 1, 2, 3))
        block = bench.next(gamma=8, stop_threshold=0.9, lookup_threshold=lookup_threshold)
        assert block.drafter is Drafter.LOOKUP
        lengths.append(len(block.ids))
    assert lengths[0] == 8 > lengths[1]


def test_sessions_are_drawn_for_by_different_parts_in_one_step() -> None:
    bench = Mixed()
    bench.open(opening(1, REPEATING), opening(2, FRESH))
    bench.settle()
    bench.order(1, 1, gamma=2)
    bench.order(2, 1, gamma=1)
    bench.work()
    assert [(block.ids, block.drafter) for block in bench.blocks()] == [
        ((4, 5), Drafter.LOOKUP),
        ((3,), Drafter.MODEL),
    ]


@pytest.mark.parametrize("rule", [Rule.TOKEN, Rule.BLOCK])
def test_all_laws_of_a_block_are_one_hot_or_all_are_counts(rule: Rule) -> None:
    warm = LawParameters(temperature=0.9)
    bench = Bench(MixedDrafter(LookupStyle(), synthetic(), lambda: 0))
    bench.open(opening(1, REPEATING, law=warm), opening(2, FRESH, law=warm))
    bench.settle()
    bench.order(1, 1, rule=rule)
    bench.order(2, 1, rule=rule)
    bench.settle()
    quoted, drawn = bench.blocks()
    assert (quoted.law, quoted.drafter) == (OneHot(), Drafter.LOOKUP)
    assert isinstance(drawn.law, tuple)
    assert (len(drawn.law), drawn.drafter) == (4, Drafter.SYNTHETIC)


def interrupted(bench: Mixed) -> Block:
    """Return a block that its order confirms after one candidate; the candidate is one that lookup knows."""
    bench.start((1, 2, 3, 11))
    bench.model.meddle = lambda pen: Drawn((2,), None) if pen.position == 5 else None
    first = bench.next()
    bench.verdict(first, 4, 1)
    bench.work()
    bench.order(1, 2, (*first.ids, 1))
    bench.settle()
    return bench.blocks()[-1]


def test_a_block_that_goes_on_keeps_its_part() -> None:
    block = interrupted(Mixed())
    assert (block.ids, block.drafter) == ((2, 10, 11, 12), Drafter.MODEL)


def test_a_part_that_is_chosen_again_within_a_block_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: the choice is made anew when an order confirms a block."""
    monkeypatch.setattr(Pen, "begins", property(lambda pen: not pen.ids))
    block = interrupted(Mixed())
    assert block.ids == (2, 3, 11, 4)


def test_lookup_that_fails_yields_to_the_model_and_comes_back_when_it_would_have_been_right() -> None:
    bench = Mixed(step_ns=MS // 100)
    bench.start(REPEATING)
    block = bench.next()
    writers = []
    for i in range(30):  # 1, 2 came before, and what follows is new; the model's candidates are kept
        writers.append(block.drafter)
        kept = block.ids if block.drafter is Drafter.MODEL else ()
        block = bench.next((*kept, 100 + i, 1, 2))
    assert writers[0] is Drafter.LOOKUP
    assert writers[-5:] == [Drafter.MODEL] * 5
    writers = []
    for _ in range(30):  # now every third block of text is the same, and the model's candidates are not kept
        writers.append(block.drafter)
        block = bench.next((61, 62, 63, 64, 65, 66, 67, 68))
    assert writers[-5:] == [Drafter.LOOKUP] * 5


@pytest.mark.parametrize(("step_ns", "writer"), [(MS // 100, Drafter.MODEL), (15 * MS, Drafter.LOOKUP)])
def test_lookup_is_free_and_a_models_candidates_take_time(step_ns: int, writer: Drafter) -> None:
    """Lookup is right in half of all blocks, the model in all: what counts is what comes in the same time."""
    bench = Mixed(step_ns=step_ns)
    bench.start((1, 2, 3, 4, 5, 6, 8))
    block = bench.next()
    for _ in range(8):
        assert block.drafter is Drafter.MODEL
        block = bench.next((*block.ids, 900 + bench.round))
    block = bench.next((1, 2))
    writers = []
    for i in range(60):
        writers.append(block.drafter)
        if block.drafter is Drafter.MODEL:
            block = bench.next((*block.ids, 200 + i, 1, 2))
        elif i % 2:
            block = bench.next((300 + i, 1, 2))
        else:
            block = bench.next((*block.ids, 400 + i, 1, 2))
    assert writers[-4:].count(writer) >= 3


def test_the_model_catches_up_with_what_lookup_wrote() -> None:
    bench = Mixed()
    bench.start(tuple(range(30)) * 2)
    block = bench.next()
    for i in range(3):
        assert block.drafter is Drafter.LOOKUP
        block = bench.next((*block.ids, 5 * i + 4))
    steps = len(bench.model.steps)
    block = bench.next((77,))
    assert block.drafter is Drafter.MODEL  # and the model has asserted that its cache is the whole text
    assert len(bench.model.steps) == steps + 4


def test_a_model_that_does_not_catch_up_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: its cache is taken for as long as the engine says."""
    monkeypatch.setattr(mixed, "_behind", lambda pen, read: pen)
    bench = Mixed()
    bench.start(REPEATING)
    block = bench.next()
    with pytest.raises(AssertionError):
        bench.next((*block.ids, 99))


def test_the_model_never_falls_behind_by_much() -> None:
    bench = Mixed()
    loop = tuple(range(20, 60))
    bench.start(loop + loop)
    block = bench.next(gamma=8)
    place = 0
    for _ in range(40):
        assert block.drafter is Drafter.LOOKUP
        read, text = len(bench.model.caches[0]), bench.output[1]
        assert len(loop + loop + text) - read < READ_ALONG + 9
        came = tuple(loop[(place + i) % 40] for i in range(9))
        place += 9
        block = bench.next(came, gamma=8)
    assert len(bench.model.caches[0]) > 300


def test_tokens_of_leases_teach_both_parts() -> None:
    bench = Mixed(step_ns=MS // 100)
    bench.model.guess = True
    bench.start((1, 2, 3))
    bench.round = 1
    bench.order(1, 1, gamma=0)
    for round in range(2, 12):
        bench.order(1, round, (1, 2, 100 + round, 200 + round) * 2, gamma=0)
        bench.settle()
    told = [event for event in bench.events() if isinstance(event, Follow)]
    assert sum(event.compared for event in told) == 80
    assert told[-1].agreed >= 6
    bench.round = 11
    bench.next((1, 2))
    assert bench.next((3, 1, 2)).drafter is Drafter.MODEL  # lookup would have been wrong every other time


def test_one_session_that_fails_costs_no_other_its_block() -> None:
    bench = Mixed()
    bench.open(opening(1, REPEATING), opening(2, FRESH))
    bench.settle()
    bench.events()
    bench.model.meddle = lambda pen: EngineFailure("no numbers")
    bench.order(1, 1)
    bench.order(2, 1)
    bench.settle()
    assert [block.drafter for block in bench.blocks()] == [Drafter.LOOKUP]
    (lost,) = bench.events()
    assert isinstance(lost, Lost)
    assert (lost.sid, lost.message) == (2, "no numbers")


def test_the_costs_that_are_told_are_those_of_the_model() -> None:
    model = FakeModel()
    drawn: list[int] = []
    model.meddle = lambda pen: drawn.append(pen.slot)
    measure_costs(MixedDrafter(LookupStyle(), model, lambda: 0))
    assert len(drawn) == REPEATS * sum(SESSIONS)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_comes_both_parts_have_read_the_same_text(seed: int) -> None:
    """Verdicts, orders that differ from them, leases, dropped caches; the model asserts what it has cached."""
    chance = random.Random(seed)
    bench = Mixed(policy=Policy(chunk=8, room=Room(tokens=260)))
    sids = (1, 2)
    bench.open(*(opening(sid, tuple(chance.randrange(3) for _ in range(20))) for sid in sids))
    bench.model.meddle = lambda pen: Drawn((chance.randrange(3),), None)
    bench.settle()
    writers = set()
    rounds = dict.fromkeys(sids, 0)
    for _ in range(60):
        sid = chance.choice(sids)
        rounds[sid] += 1
        bench.now_ns += chance.randrange(40) * MS
        bench.order(sid, rounds[sid], (), gamma=chance.choice((1, 4, 8)))
        bench.work(chance.randrange(10))
        blocks = [block for block in bench.blocks() if block.ticket[0] == sid]
        came: Tokens = tuple(chance.randrange(3) for _ in range(chance.randrange(1, 4)))
        if blocks and chance.random() < 0.8:
            kept = chance.randrange(len(blocks[-1].ids) + 1)
            told = (*blocks[-1].ids[:kept], 2)
            bench.verdict(blocks[-1], kept, 2)
            bench.work(chance.randrange(5))
            came = told if chance.random() < 0.8 else came
            writers.add(blocks[-1].drafter)
        rounds[sid] += 1
        bench.order(sid, rounds[sid], came, gamma=chance.choice((0, 2, 8)))
        if chance.random() < 0.3:
            bench.settle()
            rounds[sid] += 1
            bench.order(sid, rounds[sid], tuple(chance.randrange(3) for _ in range(9)), gamma=0)
        bench.settle()
        if sum(map(len, bench.output.values())) > 150:
            break
        for slot, cache in bench.model.caches.items():
            text = bench.mixed._slots[slot].lookup.since(0)
            assert text[: len(cache)][: bench.mixed._slots[slot].read] == tuple(cache)[: bench.mixed._slots[slot].read]
    assert writers >= {Drafter.LOOKUP}
