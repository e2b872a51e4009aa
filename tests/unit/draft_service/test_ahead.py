"""Draft-ahead in the engine: the same blocks, sooner; nothing left behind; real work first."""

from __future__ import annotations

from random import Random

import pytest

from draft_service.core import outcomes
from draft_service.core import session as transitions
from draft_service.core.state import Outcome, Session
from draft_service.drafters import model as model_module
from draft_service.drafters.choosing import MatchDraw, Style
from draft_service.engine import ahead as ahead_module
from draft_service.engine import branches as branches_module
from draft_service.engine.engine import Policy
from draft_service.engine_messages import LinkUp
from foreword.errors import EngineFailure
from foreword.laws.parameters import LawParameters
from foreword.protocol.messages import Receipt
from foreword.protocol.words import ReceiptCode, Rule
from foreword.values import replace
from tests.unit.draft_service.ahead_kit import Scene
from tests.unit.draft_service.kit import GREEDY, MS, Bench, opening

WARM = LawParameters(temperature=0.9)
PENAL = LawParameters(temperature=0.0, repetition_penalty=1.3, bias=((3, 1.0),))
WAYS = [
    pytest.param(Rule.MATCH, GREEDY, MatchDraw.COUPLED, id="greedy"),
    pytest.param(Rule.MATCH, PENAL, MatchDraw.COUPLED, id="greedy, edited"),
    pytest.param(Rule.MATCH, WARM, MatchDraw.COUPLED, id="coupled"),
    pytest.param(Rule.MATCH, WARM, MatchDraw.SAMPLED, id="sampled"),
    pytest.param(Rule.MATCH, WARM, MatchDraw.ARGMAX, id="likeliest"),
    pytest.param(Rule.TOKEN, WARM, MatchDraw.COUPLED, id="token"),
    pytest.param(Rule.BLOCK, WARM, MatchDraw.COUPLED, id="block"),
]
every_way = pytest.mark.parametrize(("rule", "law", "draw"), WAYS)


def played(branches: int, rule: Rule, law: LawParameters, draw: MatchDraw, *, mixed: bool = False, **fields: object):
    scene = Scene(branches, mixed, rule=rule, law=law, style=Style(match_draw=draw)).open(1)
    scene.play(12, random=Random(5), **fields)
    scene.drafted()
    return scene


@every_way
@pytest.mark.parametrize("alternatives", [0, 6])
def test_the_blocks_are_those_that_come_without_it(
    rule: Rule, law: LawParameters, draw: MatchDraw, alternatives: int
) -> None:
    """Addresses and laws are the same, so candidates and their laws are."""
    plain = played(0, rule, law, draw)
    ahead = played(16, rule, law, draw, alternatives=alternatives)
    assert ahead.useful() == plain.useful()
    assert len(plain.useful()) == 13
    fates = ahead.fates()
    assert fates["hit"] >= 4
    assert (fates.get("shipped", 0) > 0) == (alternatives > 0)


@every_way
@pytest.mark.parametrize("honest", [False, True])
def test_a_block_for_another_outcome_is_noticed(
    rule: Rule, law: LawParameters, draw: MatchDraw, honest: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted bug: a prepared block is found by its round alone, and says so or not."""
    plain = played(0, rule, law, draw)

    def relabelled(session: Session, prepared: Session, **fields: object) -> Outcome:
        writing, wanted = prepared.writing, session.writing
        assert writing is not None
        assert wanted is not None
        if not honest:
            prepared = replace(prepared, writing=replace(writing, digest=wanted.digest, base=wanted.base))
        return outcomes.resumed(session, prepared, **fields)  # type: ignore[arg-type]

    for module in (outcomes, ahead_module, branches_module):
        monkeypatch.setattr(module, "name_of", lambda writing: (writing.round, 0, writing.rule))
    monkeypatch.setattr(ahead_module, "resumed", relabelled)
    with pytest.raises(AssertionError):
        assert played(16, rule, law, draw).useful() == plain.useful()


@pytest.mark.parametrize("rule", [Rule.TOKEN, Rule.BLOCK])
def test_numbers_that_outcomes_share_are_noticed(rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: what is drawn for an outcome is at the address of the block that is out."""
    real = model_module.draft_address
    plain = played(0, rule, WARM, MatchDraw.COUPLED)

    def shared(digest: int, round: int, position: int):
        return real(0, round, position)

    monkeypatch.setattr(model_module, "draft_address", shared)
    assert played(16, rule, WARM, MatchDraw.COUPLED).useful() != plain.useful()


@pytest.mark.parametrize("law", [GREEDY, WARM])
def test_the_mixed_drafter_prepares_with_its_model(law: LawParameters) -> None:
    scene = played(16, Rule.MATCH, law, MatchDraw.COUPLED, mixed=True)
    assert scene.fates()["hit"] >= 4
    scene.bench.close(1)
    assert scene.runner.memory.free == scene.runner.memory.pages


def test_a_hit_goes_out_before_anything_else_is_done() -> None:
    scene = Scene().open(1)
    scene.order(1, 1)
    (first,) = scene.drafted()
    kept, token = scene.outcome(scene.texts[1], first)
    scene.bench.verdict(first, kept, token)
    (second,) = scene.bench.blocks()
    assert (second.round, second.base, len(second.ids)) == (2, kept + 1, 4)
    assert (second.draft_queue_us, second.draft_compute_us) == (0, 0)


def test_an_advance_hits_as_a_verdict_does() -> None:
    scene = Scene().open(1)
    scene.order(1, 1)
    (first,) = scene.drafted()
    kept, token = scene.outcome(scene.texts[1], first)
    scene.order(1, 2, (*first.ids[:kept], token))
    (second,) = scene.bench.blocks()
    assert (second.round, len(second.ids)) == (2, 4)


@pytest.mark.parametrize(("gamma", "length"), [(2, 4), (6, 6)])
def test_a_block_that_was_prepared_is_complete_by_the_order_that_takes_it(gamma: int, length: int) -> None:
    """Nothing drawn is taken back, the target cuts what is too long; what is too short goes on."""
    scene = Scene().open(1)
    scene.order(1, 1)
    (first,) = scene.drafted()
    kept, token = scene.outcome(scene.texts[1], first)
    scene.order(1, 2, (*first.ids[:kept], token), gamma=gamma)
    (second,) = scene.drafted()
    assert len(second.ids) == length


def test_a_part_that_was_prepared_is_gone_on_with() -> None:
    scene = Scene().open(1)
    scene.order(1, 1)
    scene.bench.work(4)
    (first,) = scene.bench.blocks()
    scene.bench.work(3)  # one pass that looks, two that draw
    kept, token = scene.outcome(scene.texts[1], first)
    scene.bench.verdict(first, kept, token)
    assert scene.bench.blocks() == []
    scene.bench.work(2, step_ns=2 * MS)
    (second,) = scene.bench.blocks()
    assert len(second.ids) == 4
    assert (second.draft_queue_us, second.draft_compute_us) == (0, 2000)


def test_another_round_or_rule_misses() -> None:
    for fields in ({"round": 3}, {"rule": Rule.BLOCK}):
        scene = Scene(law=WARM).open(1)
        scene.order(1, 1)
        (first,) = scene.drafted()
        kept, token = scene.outcome(scene.texts[1], first)
        scene.order(1, fields.get("round", 2), (*first.ids[:kept], token), rule=fields.get("rule", Rule.MATCH))  # type: ignore[arg-type]
        assert scene.bench.blocks() == []
        assert scene.fates().get("hit", 0) == 0


def test_likely_blocks_are_shipped_and_count_as_sent() -> None:
    scene = Scene().open(1)
    scene.order(1, 1, alternatives=5)
    first, *shipped = scene.drafted()
    assert [block.round for block in shipped].count(2) + [block.round for block in shipped].count(3) == 5
    assert len({(block.round, block.digest) for block in shipped}) == 5
    assert {(block.draft_queue_us, block.draft_compute_us) for block in shipped} == {(0, 0)}
    second = next(block for block in shipped if block.round == 2)
    kept = second.base - 1
    token = next(t for t in range(32) if _digest_of(scene, first, kept, t) == second.digest)
    scene.bench.verdict(first, kept, token)
    again = scene.drafted()
    assert all((b.round, b.digest) != (2, second.digest) for b in again)
    assert all(b.round > 2 for b in again)
    scene.bench.verdict(second, 0, 31)
    (third,) = [block for block in scene.drafted() if block.round == 3 and block.base == second.base + 1][:1]
    assert third.ids


def _digest_of(scene: Scene, block, kept: int, token: int) -> int:
    from foreword.protocol.digest import EMPTY, extend

    return extend(EMPTY, (*scene.texts[1], *block.ids[:kept], token))


@pytest.mark.parametrize("code", [ReceiptCode.FULL, ReceiptCode.UNKNOWN])
def test_what_the_target_had_no_room_for_goes_out_when_its_outcome_comes(code: ReceiptCode) -> None:
    scene = Scene().open(1)
    scene.order(1, 1, alternatives=1)
    first, shipped = scene.drafted()
    scene.bench.answer(Receipt(shipped.ticket, shipped.round, shipped.digest, code))
    token = next(t for t in range(32) if _digest_of(scene, first, shipped.base - 1, t) == shipped.digest)
    scene.bench.verdict(first, shipped.base - 1, token)
    (again,) = scene.bench.blocks()
    assert (again.digest, again.ids) == (shipped.digest, shipped.ids)


def test_what_was_shipped_before_a_link_came_up_is_shipped_again() -> None:
    scene = Scene().open(1)
    scene.order(1, 1, alternatives=1)
    first, shipped = scene.drafted()
    scene.bench.now_ns += MS
    scene.bench.engine.take(LinkUp("t:1", "T1", scene.bench.now_ns))
    assert sorted(block.round for block in scene.bench.blocks()) == [1, 2]
    token = next(t for t in range(32) if _digest_of(scene, first, shipped.base - 1, t) == shipped.digest)
    scene.bench.verdict(first, shipped.base - 1, token)
    assert scene.bench.blocks() == []


@pytest.mark.parametrize("alternatives", [0, 4])
def test_nothing_is_left_when_sessions_go(alternatives: int) -> None:
    scene = Scene(law=WARM).open(1, 2, 3)
    memory = scene.runner.memory
    for sid in (1, 2, 3):
        scene.play(6, sid=sid, random=Random(sid), alternatives=alternatives)
    scene.bench.settle(400)
    assert scene.runner.memory.free < memory.free
    for sid in (1, 2, 3):
        scene.bench.close(sid)
    scene.bench.settle()
    assert scene.runner.resident_tokens == 0
    assert scene.runner.memory.free == scene.runner.memory.pages


@pytest.mark.parametrize("ends", ["verdict", "gamma 0", "close", "stop"])
def test_branches_go_when_their_block_is_over(ends: str) -> None:
    scene = Scene(law=LawParameters(temperature=0.0, stop_ids=(31,))).open(1)
    scene.order(1, 1)
    (first,) = scene.drafted()
    engine = scene.bench.engine
    assert engine._ahead is not None
    assert engine._ahead.branches > 8
    if ends == "verdict":
        scene.bench.verdict(first, 0, 30)
    elif ends == "stop":
        scene.bench.verdict(first, 0, 31)
    elif ends == "close":
        scene.bench.close(1)
    else:
        scene.order(1, 2, (7,), gamma=0)
    assert engine._ahead.branches == 0
    assert scene.runner.resident_tokens <= len(scene.texts[1]) + 4


def test_sessions_come_first_and_branches_of_all_share_a_pass() -> None:
    scene = Scene().open(1, 2)
    passes: list[tuple[str, int]] = []
    real_step, real_look = scene.drafter.step, scene.drafter.look_ahead
    scene.drafter.step = lambda pens, reads: passes.append(("step", len(pens))) or real_step(pens, reads)  # type: ignore
    scene.drafter.look_ahead = lambda pens, jobs: (  # type: ignore
        passes.append(("ahead", len(pens) + len(jobs))) or real_look(pens, jobs)
    )
    scene.order(1, 1, gamma=2)
    scene.order(2, 1, gamma=4)
    scene.bench.work(4)
    assert passes == [("step", 2), ("step", 2), ("step", 1), ("step", 1)]
    scene.bench.work(2)
    assert passes[4] == ("ahead", 2)
    assert passes[5][0] == "ahead"
    assert passes[5][1] > 16


def test_branches_give_way_when_pages_are_wanted() -> None:
    scene = Scene(pages=22).open(1)
    scene.order(1, 1)
    scene.drafted()
    scene.bench.open(opening(2, tuple(range(30)) * 2, law=GREEDY))
    scene.bench.settle()
    scene.order(1, 2, (7,))
    assert [block.round for block in scene.drafted() if block.round == 2] == [2]
    counts = scene.bench.counts()
    assert counts.get("branches_dropped", 0) + counts.get("ahead_failed", 0) > 0
    assert not any(name.startswith("lost") for name in counts)


def test_a_pass_ahead_that_fails_costs_no_session() -> None:
    scene = Scene().open(1)
    scene.order(1, 1)
    real = scene.drafter.look_ahead

    def fail(pens, jobs):
        raise EngineFailure("no")

    scene.drafter.look_ahead = fail  # type: ignore[method-assign]
    (first,) = scene.drafted()
    scene.drafter.look_ahead = real  # type: ignore[method-assign]
    kept, token = scene.outcome(scene.texts[1], first)
    scene.bench.verdict(first, kept, token)
    (second,) = scene.drafted()
    assert (second.round, len(second.ids)) == (2, 4)
    assert scene.bench.counts()["ahead_failed"] == 1


def test_a_cache_that_is_dropped_takes_its_branches_along() -> None:
    scene = Scene().open(1)
    scene.order(1, 1)
    scene.drafted()
    (entry,) = scene.bench.engine._table
    scene.bench.engine._keeper.apply(entry, transitions.forgotten(entry.session))
    assert scene.runner.resident_tokens == 0
    scene.order(1, 2, (7,))
    assert [block.round for block in scene.drafted()] == [2]


def test_a_drafter_that_cannot_look_ahead_does_without() -> None:
    bench = Bench(policy=Policy(branches=16))
    bench.open(opening(1))
    bench.settle()
    bench.order(1, 1)
    bench.settle()
    assert [block.ids for block in bench.blocks()] == [(3, 4, 5, 6)]
