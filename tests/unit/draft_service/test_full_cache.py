"""A cache in which a pass finds no room: resting caches go, then the youngest session, and the others go on."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from draft_service.core.writing import Drawn
from draft_service.drafters.pen import Pen
from draft_service.drafters.port import CompareJob, ReadJob
from draft_service.engine.admission import Room
from draft_service.engine.engine import FAILURES, Policy
from draft_service.settings import DraftSettings
from foreword.errors import ForewordError, Full
from foreword.protocol.messages import DraftEvent, Lost, Tokens
from foreword.protocol.words import LossCode
from foreword.runner.budget import PAGE_SIZE
from tests.unit.draft_service.kit import Bench, FakeDrafter, opening


class Tight(FakeDrafter):
    """A fake drafter with room for so many tokens in all; like a page pool, it refuses a pass before it begins."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room
        self.too_full = 0

    def step(self, pens: Sequence[Pen], reads: Sequence[ReadJob]) -> list[Drawn | ForewordError]:
        pass_of = [(pen.slot, pen.cached, pen.rows) for pen in pens]
        self._reserve([*pass_of, *((job.slot, job.read.cached, job.read.rows) for job in reads)])
        return super().step(pens, reads)

    def compare(self, jobs: Sequence[CompareJob]) -> list[int | ForewordError]:
        self._reserve([(job.slot, job.compare.cached, job.compare.rows) for job in jobs])
        return super().compare(jobs)

    def _reserve(self, parts: Sequence[tuple[int, int, Tokens]]) -> None:
        lengths = {slot: len(cache) for slot, cache in self.caches.items()}
        lengths.update({slot: cached + len(rows) for slot, cached, rows in parts})
        if sum(lengths.values()) > self.room:
            self.too_full += 1
            raise Full(f"pages: got {sum(lengths.values())} tokens, wanted at most {self.room}")


def full(room: int, *sids: int, length: int = 30) -> tuple[Bench, Tight]:
    drafter = Tight(room)
    bench = Bench(drafter, Policy(room=Room(tokens=None)))
    bench.open(*(opening(sid, tuple(range(length))) for sid in sids))
    bench.settle()
    bench.events()
    return bench, drafter


def lost(events: list[DraftEvent]) -> list[tuple[int, LossCode]]:
    return [(event.sid, event.code) for event in events if isinstance(event, Lost)]


def test_the_youngest_goes_and_all_others_get_their_blocks() -> None:
    bench, drafter = full(130, 1, 2, 3, 4)
    for sid in (1, 2, 3, 4):
        bench.order(sid, 1, gamma=8)
    bench.settle()
    assert lost(bench.events()) == [(4, LossCode.EVICTED)]
    assert [block.ids for block in bench.blocks()] == [tuple(range(30, 38))] * 3
    assert drafter.too_full == 1


def test_caches_that_rest_go_first() -> None:
    bench, _ = full(100, 1, 2, 3)
    bench.order(3, 1, gamma=16)
    bench.settle()
    assert lost(bench.events()) == []
    assert [block.ids for block in bench.blocks()] == [tuple(range(30, 46))]
    assert bench.counts()["cache_dropped"] == 1


def test_following_finds_room_too() -> None:
    bench, _ = full(88, 1, 2, 3)
    bench.order(3, 1, gamma=0)
    bench.order(3, 2, tuple(range(100, 108)), gamma=0)
    bench.settle()
    assert lost(bench.events()) == []
    assert bench.counts()["cache_dropped"] == 1


def test_many_passes_without_room_end_sessions_and_never_the_engine() -> None:
    sids = tuple(range(1, FAILURES + 4))
    bench, _ = full(30 * len(sids), *sids)
    for round in range(1, 6):
        for sid in sids:
            if sid in bench.output:
                bench.order(sid, round, tuple(range(40, 60)) if round > 1 else (), gamma=16)
        bench.settle(1_000)
        for sid, code in lost(bench.events()):
            assert code is LossCode.EVICTED
            del bench.output[sid]
    assert list(bench.output) == [1]


def test_what_verdicts_named_counts_before_it_is_committed() -> None:
    """Verdicts may run ahead of Advances that are late; the cache holds what they say."""
    bench = Bench(policy=Policy(room=Room(tokens=80)))
    bench.open(*(opening(sid, tuple(range(30))) for sid in (1, 2)))
    bench.settle()
    bench.events()
    for sid in (1, 2):
        bench.order(sid, 1, gamma=8)
    bench.settle()
    gone: list[tuple[int, LossCode]] = []
    for _ in range(3):
        for block in bench.blocks():
            bench.verdict(block, len(block.ids), 7)
        bench.settle()
        gone += lost(bench.events())
    assert gone == [(2, LossCode.EVICTED)]


@pytest.mark.parametrize(("gamma_max", "pages"), [(1, 2), (16, 2), (17, 3), (64, 5), (256, 17)])
def test_the_cache_has_pages_for_the_blocks_of_all_sessions(gamma_max: int, pages: int) -> None:
    budget = DraftSettings(gamma_max=gamma_max, max_sessions=10).engine_config().drafter.budget
    assert budget.spare_pages == 10 * pages
    for length in range(PAGE_SIZE):  # a partly filled page, then the block
        assert -(-(length + gamma_max) // PAGE_SIZE) <= pages
