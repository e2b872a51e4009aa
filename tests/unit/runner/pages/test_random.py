"""Random lives of many sessions on one pool, against the naive model; planted bugs show."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from foreword.runner.pages.pool import PagePool
from tests.unit.runner.pages.world import FAMILIES, SALTS, Text, World, random_life

TEXTS = st.lists(st.integers(0, 1), min_size=1, max_size=9).map(tuple)
PROMPTS = st.builds(lambda family, length: family[:length], st.sampled_from(FAMILIES), st.integers(1, 20))


@pytest.mark.parametrize("cuts_committed", [False, True])
@pytest.mark.parametrize(("pages", "page_size"), [(400, 4), (24, 4), (9, 3), (60, 1), (14, 6)])
def test_a_thousand_steps_leave_nothing_behind(pages: int, page_size: int, cuts_committed: bool) -> None:
    world = random_life(PagePool(pages, page_size), 7, steps=1000, cuts_committed=cuts_committed)
    assert world.hits > 10
    assert (world.fulls > 10) == (pages < 400)
    assert (world.copies > 0) == (cuts_committed and page_size > 1)


@pytest.mark.parametrize("cuts_committed", [False, True])
@pytest.mark.parametrize(("pages", "page_size"), [(400, 4), (24, 4), (60, 1), (14, 6)])
def test_forks_leave_nothing_behind(pages: int, page_size: int, cuts_committed: bool) -> None:
    world = random_life(PagePool(pages, page_size), 5, steps=1000, cuts_committed=cuts_committed, forks=True)
    assert world.forks > 10
    assert (world.copies > 0) == (page_size > 1)


class Sessions(RuleBasedStateMachine):
    """What hypothesis may do; failures shrink to the fewest steps."""

    @initialize(pages=st.integers(1, 12), page_size=st.integers(1, 4))
    def start(self, pages: int, page_size: int) -> None:
        self.world = World(PagePool(pages, page_size))

    def _slot(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from(sorted(self.world.slots)))

    @rule(salt=st.sampled_from(SALTS), prompt=PROMPTS)
    def open(self, salt: bytes, prompt: Text) -> None:
        self.world.adopt(self.world.open(salt), prompt)

    @precondition(lambda self: self.world.slots)
    @rule(data=st.data(), text=TEXTS, fails=st.booleans())
    def append(self, data: st.DataObject, text: Text, fails: bool) -> None:
        slots = data.draw(st.sets(st.sampled_from(sorted(self.world.slots)), min_size=1))
        self.world.append({slot: text for slot in sorted(slots)}, fails=fails)

    @precondition(lambda self: self.world.slots)
    @rule(data=st.data())
    def rollback(self, data: st.DataObject) -> None:
        slot = self._slot(data)
        self.world.truncate(slot, data.draw(st.integers(0, len(self.world.slots[slot].text))))

    @precondition(lambda self: self.world.slots)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        slot = self._slot(data)
        self.world.fork(slot, data.draw(st.integers(0, len(self.world.slots[slot].text))))

    @precondition(lambda self: self.world.slots)
    @rule(data=st.data(), beyond=TEXTS)
    def commit(self, data: st.DataObject, beyond: Text) -> None:
        slot = self._slot(data)
        self.world.commit(slot, data.draw(st.integers(0, len(self.world.slots[slot].text))), beyond)

    @precondition(lambda self: self.world.slots)
    @rule(data=st.data())
    def commit_wrongly(self, data: st.DataObject) -> None:
        self.world.commit_wrongly(self._slot(data))

    @precondition(lambda self: self.world.slots)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        self.world.close(self._slot(data))

    @invariant()
    def all_is_well(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.end()


TestSessions = Sessions.TestCase
TestSessions.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
