"""Blocks that are longer than what is verified at once, and blocks that cannot be used."""

from __future__ import annotations

from dataclasses import replace

import pytest

from foreword.protocol.messages import Block, BlockLaw, BlockOrder, Commit, OneHot, SparseCounts, Tokens
from foreword.protocol.sequence import Sequence
from foreword.protocol.words import Drafter, ReceiptCode, Rule
from target_service.core.mailbox import received
from target_service.core.session import committed, opened, prefilled
from target_service.core.state import Answer, Bounds, Outcome, Phase, Session
from target_service.core.step import build
from tests.unit.target_service.kit import PROMPT, open_session, ticket

BOUNDS = Bounds(vocabulary_size=64, longest_length=1000, max_output=1000, gamma_max=4)
DIGEST = Sequence.of(PROMPT, len(PROMPT)).digest
LAW = SparseCounts((1, 2), (3, 1), 2)


def idle() -> Session:
    return prefilled(opened(open_session(max_output=1000), BOUNDS))[0]


def commit(gamma: int, rule: Rule = Rule.MATCH) -> Commit:
    return Commit(1, 1, 0, (), DIGEST, rule, BlockOrder(1_000_000, gamma, ticket(1)))


def block(ids: Tokens, law: BlockLaw | None = None) -> Block:
    return Block(ticket(1), 1, 0, DIGEST, ids, Drafter.MODEL, law)


def code(outcome: Outcome) -> ReceiptCode:
    (answer,) = [action for action in outcome[1] if isinstance(action, Answer)]
    return answer.message.code  # type: ignore[union-attr]


@pytest.mark.parametrize("early", [True, False], ids=["before the Commit", "after it"])
@pytest.mark.parametrize(("gamma", "verified"), [(2, 2), (4, 4), (8, 4)])
def test_a_longer_block_is_cut(early: bool, gamma: int, verified: int) -> None:
    long = block((1, 2, 1, 2, 1, 2, 1, 2), (LAW,) * 8)
    if early:
        session, _ = committed(received(idle(), long)[0], commit(gamma, Rule.BLOCK))
    else:
        session, _ = received(committed(idle(), commit(gamma, Rule.BLOCK))[0], long)
    assert session.phase is Phase.READY
    _, work = build(session)
    assert work.candidates == (1, 2, 1, 2)[:verified]


def test_of_a_longer_block_no_more_is_kept_than_is_verified() -> None:
    session, _ = received(idle(), block((1, 2) * 100, (LAW,) * 200))
    (kept,) = session.mailbox
    assert (kept.ids, kept.law) == ((1, 2, 1, 2), (LAW,) * 4)


BAD = {
    "an id that there is not": block((1, 64)),
    "no law": block((1, 2)),
    "a law too few": block((1, 2, 1, 2, 1), (LAW,) * 4),
    "a candidate off its support": block((1, 3), (LAW,) * 2),
    "a tree": replace(block((1, 2), OneHot()), parents=(0, 0)),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_after_a_bad_block_of_its_round_nothing_is_waited_for(bad: Block) -> None:
    """It was the one block of that ticket and digest: the session goes on with a plain step."""
    session, _ = committed(idle(), commit(4, Rule.BLOCK))
    outcome = received(session, bad)
    assert code(outcome) is ReceiptCode.BAD
    assert (outcome[0].phase, outcome[0].block) == (Phase.READY, None)


def test_a_good_block_after_a_bad_one_is_used_until_the_step_is_built() -> None:
    session, _ = received(committed(idle(), commit(4))[0], block((1, 64)))
    outcome = received(session, block((1, 2)))
    assert code(outcome) is ReceiptCode.TAKEN
    assert build(outcome[0])[1].candidates == (1, 2)
