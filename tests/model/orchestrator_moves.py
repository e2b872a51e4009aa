"""What can happen at the orchestrator of the small world."""

from __future__ import annotations

from collections.abc import Iterator

from foreword.protocol.messages import (
    Commit,
    DraftOpened,
    Follow,
    LinkState,
    Lost,
    Refused,
    Result,
    TargetAddress,
    TargetCommand,
    TargetOpen,
    TargetOpened,
)
from foreword.protocol.words import LossCode
from foreword.values import replace
from orchestrator.core import draft_part, session
from orchestrator.core.state import (
    Action,
    Count,
    DraftPhase,
    Ended,
    NeedDraft,
    NeedTarget,
    Outcome,
    Phase,
    ToDraft,
    ToTarget,
)
from tests.model.world import Scope, World, plan

GONE = "gone"
"""On a link to the orchestrator: the stream ended."""

FAULTS = frozenset({"protocol_fault", "old_commit"})


class Violation(AssertionError):
    """The world reached a state that the protocol forbids."""


def apply(world: World, outcome: Outcome) -> World:
    """Return the world after a transition of the generation."""
    world = replace(world, generation=outcome[0])
    for action in outcome[1]:
        world = _act(world, action)
    return world


def _act(world: World, action: Action) -> World:
    if isinstance(action, ToTarget):
        world = _count_round(world, action.command)
    rest = world.rest
    match action:
        case ToTarget(command) if rest.target is not None and world.targets[rest.target].alive:
            return world.sent("O", f"T{rest.target}", command)
        case ToDraft(command) if rest.draft is not None and world.drafts[rest.draft].alive:
            return world.sent("O", f"D{rest.draft}", command)
        case NeedTarget():
            return replace(world, rest=replace(rest, need_target=True, target=None))
        case NeedDraft():
            return replace(world, rest=replace(rest, need_draft=True, draft=None))
        case Count(name) if name in FAULTS:
            raise Violation(f"orchestrator counted {name}")
        case Ended():
            return replace(world, rest=replace(rest, need_target=False, need_draft=False))
    return world


def _count_round(world: World, command: TargetCommand) -> World:
    """A round is never used again, whichever target it goes to: it is part of every random address."""
    commit = command.first if isinstance(command, TargetOpen) else command
    if not isinstance(commit, Commit):
        return world
    if commit.round <= world.rest.last_round:
        raise Violation(f"round {commit.round} is used again after {world.rest.last_round}")
    return replace(world, rest=replace(world.rest, last_round=commit.round))


def deliver(world: World, source: str, message: object, scope: Scope) -> World:
    """Return the world after the orchestrator received one message."""
    generation, rest = world.generation, world.rest
    current = source in (f"T{rest.target}", f"D{rest.draft}")
    if not current:
        return world
    if message == GONE:
        if source[0] == "T":
            return apply(world, session.target_gone(generation, "stream end"))
        return apply(world, draft_part.draft_gone(generation, generation.draft.sid, "stream end"))
    match message:
        case TargetOpened():
            return apply(world, session.target_opened(generation, message, plan(scope)))
        case Result():
            return apply(world, session.result_came(generation, message, plan(scope)))
        case LinkState():
            return apply(world, draft_part.link_state(generation, message))
        case DraftOpened():
            return apply(world, draft_part.draft_opened(generation, message, plan(scope)))
        case Follow():
            return apply(world, draft_part.followed(generation, message))
        case Lost() | Refused():
            if message.code is LossCode.PROTOCOL:
                raise Violation(f"{source} lost the session: {message.message}")
            raise Violation(f"unexpected {message}")
    raise Violation(f"orchestrator got {message}")


def moves(world: World, scope: Scope) -> Iterator[tuple[str, World]]:
    """Yield what the orchestrator may do of itself."""
    generation, rest = world.generation, world.rest
    if generation.phase is Phase.DONE:
        return
    ticket = rest.next_id.to_bytes(16, "little")
    bumped = replace(rest, next_id=rest.next_id + 1)
    if rest.need_target:
        for index, peer in enumerate(world.targets):
            if peer.alive and peer.session is None:
                address = TargetAddress(f"T{index}", "", ticket)
                ready = replace(world, rest=replace(bumped, need_target=False, target=index))
                yield (
                    f"open T{index}",
                    apply(ready, session.open_target(generation, rest.next_id, address, plan(scope))),
                )
                break
    elif rest.need_draft and rest.target is not None and generation.draft.phase is DraftPhase.NONE:
        for index, draft in enumerate(world.drafts):
            if draft.alive and draft.session is None:
                address = TargetAddress(f"T{rest.target}", "", ticket)
                ready = replace(world, rest=replace(bumped, need_draft=False, draft=index))
                yield f"assign D{index}", apply(ready, draft_part.assign_draft(generation, rest.next_id, address))
                break
    yield from _client(world, scope)


def _client(world: World, scope: Scope) -> Iterator[tuple[str, World]]:
    generation, rest = world.generation, world.rest
    if "slow_client" in rest.faults and not generation.client_full:
        spent = replace(world, rest=replace(rest, faults=tuple(f for f in rest.faults if f != "slow_client")))
        yield "client full", apply(spent, session.client_full(generation))
    if generation.client_full:
        yield "client drained", apply(world, session.client_drained(generation, plan(scope)))
    if "stop" in rest.faults and generation.sequence.base >= 2:
        left = tuple(f for f in rest.faults if f != "stop")
        spent = replace(world, rest=replace(rest, faults=left, stopped_at=generation.sequence.base - 1))
        yield "stop text", apply(spent, session.stopped(generation, generation.sequence.base - 1))
    if "draft_dropped" in rest.faults and rest.draft is not None:
        left = tuple(f for f in rest.faults if f != "draft_dropped")
        spent = replace(world, rest=replace(rest, faults=left))
        yield "draft dropped", apply(spent, draft_part.drop_draft(generation, "replaced"))
    if "overdue" in rest.faults and generation.phase is Phase.WAIT and generation.commit is not None:
        spent = replace(world, rest=replace(rest, faults=tuple(f for f in rest.faults if f != "overdue")))
        yield "overdue", apply(spent, session.overdue(generation, generation.commit.round))
