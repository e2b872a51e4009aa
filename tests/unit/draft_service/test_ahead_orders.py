"""Draft-ahead under orders that change: blocks longer and shorter than a branch was prepared for; lookup beside it."""

from __future__ import annotations

from draft_service.drafters.mixed import MixedDrafter
from foreword.laws.parameters import LawParameters
from foreword.protocol.messages import DraftKeys, Lost
from foreword.protocol.words import Drafter, Rule
from tests.unit.draft_service.ahead_kit import Scene
from tests.unit.draft_service.kit import opening

STOPS = LawParameters(temperature=1.0, stop_ids=tuple(range(12)))
PAIRS = (*(token for y in range(32) for token in (3, y)), 3)
"""Nothing follows the pair at its end yet; after one token more, everything does."""


def held(scene: Scene) -> int:
    return scene.runner.memory.pages - scene.runner.memory.free


def test_blocks_that_grow_and_shrink_lose_no_session_and_no_page() -> None:
    """A branch that was complete, and looked behind, is gone on with when the order allows more than it did."""
    scene = Scene(branches=16, pages=100_000)
    for sid in range(1, 7):
        scene.open(sid)
        came: tuple[int, ...] = ()
        for round in range(1, 9):
            scene.order(sid, round, came, gamma=2 + round % 2)
            scene.drafted()
            assert not [event for event in scene.bench.events() if isinstance(event, Lost)]
            block = scene.block(round, sid)
            kept, token = scene.outcome(scene.texts[sid], block)
            came = (*block.ids[:kept], token)
        scene.bench.close(sid)
        scene.bench.settle()
    assert scene.fates()["hit"] > 12
    assert held(scene) == 0


def test_a_branch_that_a_shorter_order_completes_draws_no_more() -> None:
    scene = Scene(branches=8).open(1, 2)
    engine = scene.bench.engine
    scene.order(2, 1, gamma=4)
    scene.drafted()
    scene.order(1, 1, gamma=6)
    trees = engine._ahead._trees  # type: ignore[union-attr]
    for _ in range(60):
        engine.work()
        begun = [b for b in (trees[0].followers if 0 in trees else ()) if b.pen is not None and len(b.written) >= 2]
        if begun:
            break
    guess, block = begun[0].guess, trees[0].root.block
    assert guess is not None
    scene.order(1, 2, (*block[: guess.kept], guess.token), gamma=2)
    assert trees[0].root.pen is None
    others = len(trees[1].followers)
    for _ in range(3):
        engine.work()
    assert len(trees[1].followers) == others > 0
    assert "ahead_failed" not in scene.bench.counts()


def used(seed: int) -> tuple[bool, Drafter]:
    """Return whether a branch began with a stop id, and who wrote the block that was sent when it came true.

    The branch is begun when its outcome comes, and lookup would rather write the next block.
    """
    scene = Scene(branches=16, mixed=True, law=STOPS, rule=Rule.TOKEN)
    scene.bench.open(opening(1, PAIRS, law=STOPS, keys=DraftKeys(seed.to_bytes(16, "little"))))
    scene.texts[1] = PAIRS
    scene.bench.settle()
    scene.order(1, 1, gamma=3, alternatives=8)
    engine, blocks = scene.bench.engine, []
    trees = engine._ahead._trees  # type: ignore[union-attr]
    while not any(branch.written for tree in trees.values() for branch in tree.followers):
        engine.work()
        blocks += scene.bench.blocks()
    begun = [b for b in trees[0].followers if b.guess is not None and b.guess.kept == 0 and b.written]
    branch = max(begun, key=lambda one: one.probability)
    assert branch.guess is not None
    first, stops = branch.guess.token, branch.written[0] in STOPS.stop_ids
    scene.bench.verdict(next(block for block in blocks if block.round == 1), 0, first)
    scene.order(1, 2, (first,), gamma=3, alternatives=8)
    scene.bench.settle(400)
    (came,) = {block.drafter for block in (*blocks, *scene.bench.blocks()) if block.digest == branch.name[1]}
    return stops, came


def test_whether_a_branch_is_gone_on_with_does_not_depend_on_what_it_drew(monkeypatch) -> None:
    """A branch that drew a stop id is complete, and shipped, at once; one that did not must not give way to lookup."""
    assert {used(seed) for seed in range(24)} == {(True, Drafter.SYNTHETIC), (False, Drafter.SYNTHETIC)}

    def planted(self, slot, branch, session, prepared, *, shipped):
        return shipped and real(self, slot, branch, session, prepared, shipped=shipped)

    real = MixedDrafter.take_over
    monkeypatch.setattr(MixedDrafter, "take_over", planted)
    assert len({came for stops, came in map(used, range(24)) if not stops} - {Drafter.SYNTHETIC}) == 1


def test_behind_a_block_that_lookup_wrote_nothing_is_prepared() -> None:
    scene = Scene(branches=16, mixed=True)
    scene.bench.open(opening(1, (1, 2, 3, 4, 5, 6, 1, 2, 3)))
    scene.bench.settle()
    scene.bench.order(1, 1)
    scene.bench.settle(400)
    (block,) = scene.bench.blocks()
    assert block.drafter is Drafter.LOOKUP
    assert "prepared" not in scene.fates()
    scene.bench.order(1, 2, (*block.ids, 9), gamma=4)
    scene.bench.settle(400)
    assert scene.bench.blocks()[-1].drafter is Drafter.SYNTHETIC
    scene.bench.close(1)
    scene.bench.settle()
    assert held(scene) == 0
