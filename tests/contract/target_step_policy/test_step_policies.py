"""What every step policy must keep to, whatever it decides."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from target_service.core.policy import Arrival, Part, StartNow, StepPolicy, StepPolicyName, WaitUntil, step_policy

PARTS = st.builds(Part, st.integers(1, 64), st.floats(0.1, 50.0))


@st.composite
def arrivals(draw: st.DrawFn) -> list[Arrival]:
    """Sessions as the engine describes them at time 0: due after now, and not after their limit."""
    found = []
    for _ in range(draw(st.integers(0, 6))):
        due_us = draw(st.integers(1, 60_000))
        limit_us = draw(st.one_of(st.none(), st.integers(due_us, 90_000)))
        reply_us = draw(st.one_of(st.none(), st.integers(0, 60_000)))
        found.append(Arrival(draw(PARTS), due_us, limit_us, reply_us))
    return found


def linear(rows: int) -> float:
    return 20_000.0 + 500.0 * rows


@pytest.mark.parametrize("name", list(StepPolicyName), ids=lambda name: name.value)
class TestStepPolicy:
    def policy(self, name: StepPolicyName) -> StepPolicy:
        return step_policy(name)

    @given(ready=PARTS)
    def test_with_nobody_to_wait_for_it_starts(self, name: StepPolicyName, ready: Part) -> None:
        assert self.policy(name).decide(0, ready, [], step_us=linear) == StartNow()

    @given(ready=PARTS, waiting=arrivals())
    def test_a_wait_goes_forward_and_ends_with_the_last_that_is_waited_for(
        self, name: StepPolicyName, ready: Part, waiting: list[Arrival]
    ) -> None:
        decision = self.policy(name).decide(0, ready, waiting, step_us=linear)
        if isinstance(decision, WaitUntil):
            assert 0 < decision.at_us <= max(max(a.due_us, a.limit_us or 0) for a in waiting)

    @given(ready=PARTS, waiting=arrivals())
    @example(  # two that are due together
        ready=Part(1, 1.0), waiting=[Arrival(Part(1, 0.125), 1, None), Arrival(Part(46, 1.0), 1, None)]
    )
    def test_it_depends_on_what_it_is_told_alone_and_changes_nothing(
        self, name: StepPolicyName, ready: Part, waiting: list[Arrival]
    ) -> None:
        policy, before = self.policy(name), copy.deepcopy(waiting)
        first = policy.decide(0, ready, waiting, step_us=linear)
        assert policy.decide(0, ready, list(reversed(waiting)), step_us=linear) == first
        assert waiting == before

    @given(ready=PARTS, waiting=arrivals(), shift=st.integers(0, 10**12))
    def test_only_differences_of_times_matter(
        self, name: StepPolicyName, ready: Part, waiting: list[Arrival], shift: int
    ) -> None:
        later = [
            replace(a, due_us=a.due_us + shift, limit_us=None if a.limit_us is None else a.limit_us + shift)
            for a in waiting
        ]
        now = self.policy(name).decide(0, ready, waiting, step_us=linear)
        then = self.policy(name).decide(shift, ready, later, step_us=linear)
        assert then == (WaitUntil(now.at_us + shift) if isinstance(now, WaitUntil) else now)
