"""The simulator: it repeats itself, keeps to the formula, and judges: a policy that does not choose loses."""

from __future__ import annotations

import pytest

from foreword.errors import InvalidField
from loadtest.overhead.formula import expected_emitted
from loadtest.simulator.run import Played, Simulation
from loadtest.simulator.scene import FLAT, LINEAR, MS, Scene, Schedule
from loadtest.simulator.text import Text
from orchestrator.policy import Gamma
from target_service.policy_bench.scene import StepCost


def play(scene: Scene, gamma: int | None, *, seed: int = 1) -> Played:
    wanted = Gamma() if gamma is None else Gamma(fixed=gamma)
    return Simulation(scene, wanted, seed=seed).run()


def test_the_same_seed_gives_the_same_run() -> None:
    scene = Scene(sessions=3, seconds=3.0, step=LINEAR)
    first, again, other = play(scene, None), play(scene, None), play(scene, None, seed=2)
    assert (first.tokens, first.gammas, first.prices) == (again.tokens, again.gammas, again.prices)
    assert first.tokens != other.tokens


def test_which_candidates_are_right_depends_on_the_position_alone() -> None:
    asked = Text(1, 2)
    late = [asked.right(position, 0.5) for position in (9, 3, 7)]
    assert late == [Text(1, 2).right(position, 0.5) for position in (9, 3, 7)]
    assert [Text(1, 2).right(position, 0.0) for position in range(50)] == [False] * 50
    kept = sum(Text(1, number).right(0, 0.8) for number in range(2000)) / 2000
    assert kept == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize(("gamma", "rtt_ms"), [(1, 0), (4, 0), (4, 40), (8, 10)])
def test_one_session_keeps_to_the_formula(gamma: int, rtt_ms: int) -> None:
    scene = Scene(seconds=60.0, rtt_us=Schedule.constant(rtt_ms * MS), tokens=4096)
    formula = 1000.0 * expected_emitted(0.8, gamma) / (2.0 * gamma + 20.0 + rtt_ms)
    assert play(scene, gamma).tokens_s == pytest.approx(formula, rel=0.05)


def test_plain_decoding_takes_a_step_a_token() -> None:
    assert play(Scene(sessions=16, seconds=5.0), 0).tokens_s == pytest.approx(800.0, rel=0.02)


def test_sessions_in_step_keep_to_the_formula_too() -> None:
    scene = Scene(sessions=8, seconds=20.0, step=StepCost(slope_ms=1.0, knee=8), tokens=4096)
    formula = 8 * 1000.0 * expected_emitted(0.8, 2) / (2 * 2.0 + 20.0 + (8 * 3 - 8))
    assert play(scene, 2).tokens_s == pytest.approx(formula, rel=0.08)


def test_messages_that_take_time_make_rounds_longer() -> None:
    near, far = (play(Scene(seconds=20.0, hop_us=hop_us), 4).tokens_s for hop_us in (0, 2_000))
    assert far == pytest.approx(near * 28.0 / 32.0, rel=0.03)


def test_a_network_that_changes_is_felt_when_it_does() -> None:
    played = play(Scene(seconds=20.0, rtt_us=Schedule.steps(10.0, 0, 100 * MS)), 4)
    middle = next(tokens for at_us, tokens in played.times_us if at_us == 10_000_000)
    assert middle > 3 * (played.tokens - middle)


@pytest.mark.parametrize(("sessions", "step", "rtt_ms"), [(1, FLAT, 100), (16, LINEAR, 10)])
def test_where_blocks_do_not_pay_the_measured_choice_is_nearly_plain_and_a_fixed_one_loses(
    sessions: int, step: StepCost, rtt_ms: int
) -> None:
    scene = Scene(sessions=sessions, seconds=8.0, step=step, rtt_us=Schedule.constant(rtt_ms * MS))
    plain, chosen, fixed = (play(scene, gamma).tokens_s for gamma in (0, None, 4))
    assert chosen >= 0.93 * plain
    assert fixed < 0.8 * plain


@pytest.mark.parametrize("agreement", [0.5, 0.9])
def test_where_blocks_pay_the_measured_choice_is_near_the_best(agreement: float) -> None:
    scene = Scene(seconds=20.0, agreement=Schedule.constant(agreement), rtt_us=Schedule.constant(2 * MS))
    best = max(play(scene, gamma).tokens_s for gamma in (1, 2, 3, 4, 6, 8, 10, 12))
    assert play(scene, None).tokens_s >= 0.94 * best


@pytest.mark.parametrize("gamma", [3, 5])
def test_two_sessions_whose_blocks_are_due_at_one_moment_share_their_steps(gamma: int) -> None:
    alone, both = (play(Scene(sessions=sessions, seconds=8.0, tokens=4096), gamma).tokens_s for sessions in (1, 2))
    assert both >= 1.75 * alone


def test_sessions_that_share_a_step_do_not_leave_it_one_by_one() -> None:
    """Eight of them have sixteen rows that cost nothing; plainly a token takes as long as their blocks let it."""
    scene = Scene(sessions=8, seconds=10.0, step=LINEAR)
    best, chosen = play(scene, 1), play(scene, None)
    assert chosen.tokens_s >= 0.94 * best.tokens_s
    assert sum(chosen.gammas.values()) > 20 * chosen.gammas[0]


def test_scenes_are_checked() -> None:
    with pytest.raises(InvalidField, match="sessions: got 0, wanted a whole number from 1"):
        Scene(sessions=0)
    with pytest.raises(InvalidField, match="tokens: got 1, wanted a whole number from 2"):
        Scene(tokens=1)
