"""The wait rule against its yardsticks in closed loops, in virtual time: the bars that it is held to."""

from __future__ import annotations

import json
from random import Random

import pytest
from typer.testing import CliRunner

from foreword.errors import InvalidField
from loadtest.policy.command import command
from target_service.core.policy import Arrival, Part, StepPolicyName, StepTime, step_policy
from target_service.policy_bench.compare import compare
from target_service.policy_bench.play import Play
from target_service.policy_bench.scene import DRAFTED, JITTER, Reply, Scene, Spread, StepCost, scenes


def rates(scene: Scene) -> dict[str, float]:
    return compare(scene, repeats=2).tokens_s


def test_it_is_as_good_as_the_better_yardstick_where_all_are_in_step() -> None:
    found = compare(Scene("in step", [DRAFTED] * 16, seconds=10.0), repeats=2)
    assert found.to_best_other >= 0.97


@pytest.mark.parametrize("drafting_ms", [0.0, 8.0])
def test_it_beats_both_by_a_tenth_where_blocks_are_late_now_and_then(drafting_ms: float) -> None:
    found = compare(Scene("late", [Reply(drafting_ms, JITTER)] * 16, seconds=10.0), repeats=2)
    assert found.to_best_other >= 1.1


def test_a_rule_that_forgets_what_taking_turns_costs_fails_the_bar() -> None:
    """The planted bug: with reply times withheld, the rule is the one that was measured first."""

    class Forgetful:
        def decide(self, now_us: int, ready: Part, waiting: list[Arrival], *, step_us: StepTime) -> object:
            forgotten = [Arrival(a.part, a.due_us, a.limit_us) for a in waiting]
            return step_policy(StepPolicyName.WORTHWHILE).decide(now_us, ready, forgotten, step_us=step_us)

    scene = Scene("14 ms", [Reply(14.0)] * 16, seconds=5.0)
    forgetful = Play(scene, Forgetful(), seed=0).play().tokens_s  # type: ignore[arg-type]
    assert forgetful < 0.97 * rates(scene)["lockstep"]
    assert rates(scene)["worthwhile"] >= 0.97 * rates(scene)["lockstep"]


@pytest.mark.parametrize("reply_ms", [8.0, 12.0, 25.0])
def test_leases_beside_drafts_cost_little(reply_ms: float) -> None:
    replies = [Reply(reply_ms, (Spread(1.0, -3.0, 3.0),))] * 8
    assert compare(Scene("leases", replies, leases=8, seconds=8.0), repeats=2).to_best_other >= 0.95


def test_in_step_the_rate_is_that_of_the_formula() -> None:
    """n·E(γ) / (γ·t_d + t_v): 16 sessions, 8 + 20 ms a round."""
    found = Play(Scene("in step", [DRAFTED] * 16, seconds=20.0), step_policy(StepPolicyName.LOCKSTEP), seed=3).play()
    expected = 16 * (1 - 0.75**5) / (1 - 0.75) / 0.028
    assert found.tokens_s == pytest.approx(expected, rel=0.02)
    assert found.steps_s == pytest.approx(1 / 0.028, rel=0.02)


def test_the_same_seed_plays_the_same() -> None:
    scene = Scene("late", [Reply(8.0, JITTER)] * 4, leases=1, step=StepCost(slope_ms=0.5, knee=4), seconds=3.0)
    one, two = (Play(scene, step_policy(StepPolicyName.WORTHWHILE), seed=5).play() for _ in range(2))
    assert one == two
    assert one != Play(scene, step_policy(StepPolicyName.WORTHWHILE), seed=6).play()


def test_replies_are_drawn_by_their_shares() -> None:
    drawn = [Reply(8.0, JITTER).draw_us(Random(seed)) for seed in range(4000)]
    assert sum(us == 8_000 for us in drawn) / 4000 == pytest.approx(0.35, abs=0.03)
    assert sum(us == 23_000 for us in drawn) / 4000 == pytest.approx(0.05, abs=0.01)
    assert all(us in (8_000, 23_000) or 9_000 <= us <= 10_000 for us in drawn)


def test_a_scene_without_sessions_is_refused() -> None:
    with pytest.raises(InvalidField, match="replies: got 0, wanted a session at least"):
        Scene("empty", [])


def test_the_command_writes_json_and_a_table() -> None:
    done = CliRunner().invoke(command, ["--seconds", "1", "--repeats", "1", "--json"])
    assert done.exit_code == 0
    report = json.loads(done.stdout)
    assert [(bar["name"].partition(":")[0], bar["at_least"]) for bar in report["bars"]] == [
        ("in step", 0.97),
        ("blocks late by 0, 1 to 2 or 15 ms", 1.1),
    ]
    found = report["figures"]["scenes"]
    assert [one["scene"] for one in found] == [scene.name for scene in scenes()]
    assert set(found[0]["tokens_s"]) == {"immediate", "lockstep", "worthwhile"}
    shown = CliRunner().invoke(command, ["--seconds", "1", "--repeats", "1"])
    assert "half on leases, drafts 8 ms" in shown.stdout, "names are not broken"
