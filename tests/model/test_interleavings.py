"""Every interleaving of a small world, with the real state tables; planted bugs must be found."""

from __future__ import annotations

import inspect
import textwrap
from types import ModuleType

import pytest

from orchestrator.core import rounds, session
from target_service.core import mailbox
from target_service.core import session as targeting
from tests.model.explore import explore
from tests.model.orchestrator_moves import Violation
from tests.model.world import Scope

SMALL = [
    Scope(output=3, gamma=2, drafts=1, targets=1),
    Scope(output=3, gamma=2, drafts=1, targets=1, ships=1, wrong=1),
    Scope(output=3, gamma=1, drafts=2, targets=1, faults=("draft_dies",), wrong=0),
    Scope(output=3, gamma=1, drafts=1, targets=2, faults=("target_dies",), wrong=0),
    Scope(output=3, gamma=1, drafts=1, targets=1, faults=("stop",), wrong=1),
    Scope(output=4, gamma=1, drafts=1, targets=2, faults=("target_dies",), wrong=1, warm=True),
    Scope(output=4, gamma=1, drafts=1, targets=1, faults=("send_by", "slow_client"), wrong=1, warm=True),
    Scope(output=3, gamma=1, drafts=2, targets=1, faults=("draft_dropped",), wrong=1, warm=True),
    Scope(output=3, gamma=1, drafts=1, targets=1, faults=("link_down",), wrong=0, warm=True),
    Scope(output=3, gamma=1, drafts=1, targets=2, faults=("overdue",), wrong=0, warm=True),
]

LARGE = [
    Scope(output=5, gamma=2, drafts=1, targets=1, ships=1, wrong=2, warm=True),
    Scope(output=4, gamma=2, drafts=1, targets=1, ships=2, wrong=1),
    Scope(output=3, gamma=2, drafts=1, targets=1, faults=("send_by", "slow_client", "stop"), ships=1, wrong=1),
    Scope(output=4, gamma=1, drafts=2, targets=1, faults=("draft_dies", "link_down"), wrong=0, warm=True),
    Scope(output=4, gamma=1, drafts=2, targets=1, faults=("draft_dropped", "slow_client"), wrong=1, warm=True),
    Scope(output=3, gamma=1, drafts=2, targets=2, faults=("draft_dies", "target_dies"), wrong=1),
    Scope(output=3, gamma=1, drafts=1, targets=2, faults=("overdue",), wrong=1),
]


@pytest.mark.parametrize("scope", SMALL, ids=str)
def test_no_interleaving_breaks_the_protocol(scope: Scope) -> None:
    explored = explore(scope)
    assert explored.finished > 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("scope", LARGE, ids=str)
def test_no_interleaving_breaks_the_protocol_in_larger_worlds(scope: Scope) -> None:
    explored = explore(scope)
    assert explored.finished > 0


def _plant(monkeypatch: pytest.MonkeyPatch, module: ModuleType, function: str, changes: dict[str, str]) -> None:
    """Replace code in one function; the test fails loudly when the code to be replaced is not there."""
    source = textwrap.dedent(inspect.getsource(getattr(module, function)))
    for old, new in changes.items():
        assert old in source, f"{function} has no {old!r}: plant the bug anew"
        source = source.replace(old, new)
    namespace: dict[str, object] = {}
    exec(compile(source, f"<planted {function}>", "exec", dont_inherit=True, flags=0x1000000), vars(module), namespace)
    monkeypatch.setattr(module, function, namespace[function])


def _found(scope: Scope, match: str) -> None:
    with pytest.raises(Violation, match=match):
        explore(scope)


def test_finds_a_block_joined_without_its_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    same = "(block.base, block.digest) != (session.commit.base, session.commit.digest)"
    _plant(monkeypatch, mailbox, "received", {same: "False"})
    _plant(monkeypatch, mailbox, "unusable", {"(block.base, block.digest) != (commit.base, commit.digest)": "False"})
    _found(Scope(output=4, gamma=1, drafts=1, targets=1, ships=1, wrong=1), "does not assume")


def test_finds_a_shipped_block_joined_by_round_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    _plant(
        monkeypatch,
        targeting,
        "_start",
        {
            "(b.ticket, b.digest, b.round)": "(b.ticket, b.round)",
            "(order.ticket, commit.digest, commit.round)": "(order.ticket, commit.round)",
        },
    )
    monkeypatch.setattr(targeting, "unusable", lambda block, commit, bounds: "")
    _found(Scope(output=4, gamma=1, drafts=1, targets=1, ships=1, wrong=1), "does not assume")


def test_finds_blocks_of_a_draft_that_was_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    _plant(monkeypatch, mailbox, "received", {" or block.ticket != order.ticket": ""})
    _plant(
        monkeypatch, targeting, "_start", {"session.tickets[session.tickets.index(order.ticket) :]": "session.tickets"}
    )
    _found(Scope(output=4, gamma=1, drafts=2, targets=1, faults=("draft_dropped",), wrong=1, warm=True), "ticket")


def test_finds_a_block_used_after_its_step_was_built(monkeypatch: pytest.MonkeyPatch) -> None:
    old = "waiting = session.phase is Phase.WAIT or (session.phase is Phase.READY and session.block is None)"
    _plant(monkeypatch, mailbox, "received", {old: "waiting = session.block is None"})
    _found(Scope(output=3, gamma=1, drafts=1, targets=1, wrong=1), "running one")


def test_finds_a_recall_that_reaches_into_the_running_step(monkeypatch: pytest.MonkeyPatch) -> None:
    _plant(
        monkeypatch, targeting, "recalled", {"if session.phase is Phase.WAIT:": "if session.phase is not Phase.LEASE:"}
    )
    _plant(monkeypatch, targeting, "waited", {"if session.phase is not Phase.WAIT:": "if session.phase is Phase.GONE:"})
    _found(Scope(output=3, gamma=1, drafts=2, targets=1, faults=("draft_dies",), wrong=0), "running one")


def test_finds_rejected_candidates_left_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targeting, "_still_cached", lambda session, sequence, equal: session.cached)
    _found(Scope(output=3, gamma=2, drafts=1, targets=1), "rows|wrong")


def test_finds_a_round_that_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    _plant(monkeypatch, session, "target_gone", {"commit=None,": "commit=None, round=max(0, session.round - 1),"})
    _found(Scope(output=3, gamma=1, drafts=1, targets=2, faults=("target_dies",), wrong=0), "used again")


def test_finds_a_session_that_is_never_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    _plant(monkeypatch, session, "target_gone", {"if close and": "if False and"})
    _found(Scope(output=3, gamma=1, drafts=1, targets=2, faults=("overdue",), wrong=0, warm=True), "leaks")


def test_finds_tokens_lost_when_a_session_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    _plant(monkeypatch, rounds, "next_commit", {"session.sequence.since(session.target_base)": "()"})
    _found(Scope(output=3, gamma=1, drafts=1, targets=1, wrong=1), ".")


def test_finds_a_lease_that_ignores_its_recall(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recall that nobody answers traps the generation only if its round never ends."""
    _plant(monkeypatch, targeting, "recalled", {"if session.phase is Phase.WAIT:": "if False:"})
    _plant(monkeypatch, targeting, "waited", {"if session.phase is not Phase.WAIT:": "if True:"})
    _found(Scope(output=3, gamma=1, drafts=2, targets=1, faults=("draft_dies",), wrong=0), "stuck")
