"""What can happen at the targets and drafts of the small world."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from draft_service.core import reading, writing
from draft_service.core import session as drafting
from draft_service.core import state as d
from foreword.acceptance import Evidence, Verdict
from foreword.protocol import digest as digests
from foreword.protocol.messages import (
    Advance,
    Block,
    Commit,
    DraftClose,
    DraftOpen,
    LinkState,
    Recall,
    Receipt,
    TargetClose,
    TargetOpen,
    TargetTicket,
    Tokens,
    VerdictNotice,
)
from foreword.protocol.words import Drafter, LossCode, ReceiptCode, Rule
from foreword.values import replace
from target_service.core import mailbox, step
from target_service.core import session as targeting
from target_service.core import state as t
from tests.model.orchestrator_moves import Violation
from tests.model.world import VOCABULARY, DraftPeer, Scope, TargetPeer, World, next_token, reference

DOWN = "down"
"""On a draft–target link: it broke."""


def _target_bounds(scope: Scope) -> t.Bounds:
    return t.Bounds(vocabulary_size=3, longest_length=64, max_output=scope.output, gamma_max=scope.gamma)


def _act_target(world: World, index: int, outcome: t.Outcome) -> World:
    session, actions = outcome
    peer = world.targets[index]
    gone = session.phase is t.Phase.GONE
    world = world.put_target(index, replace(peer, session=None if gone else session))
    for action in actions:
        match action:
            case t.Tell(event):
                if getattr(event, "code", None) is LossCode.PROTOCOL:
                    raise Violation(f"T{index}: {event}")
                world = world.sent(f"T{index}", "O", event)
            case t.Answer(message):
                world = _to_holder(world, index, message)
            case t.Count("old_commit" | "bad_block"):
                raise Violation(f"T{index} counted {action}")
    return world


def _to_holder(world: World, index: int, message: Receipt | VerdictNotice) -> World:
    """Send to the draft whose link carries this ticket; a dead draft gets nothing."""
    for number, draft in enumerate(world.drafts):
        mine = draft.session is not None and draft.session.target.ticket == message.ticket
        if draft.alive and mine:
            return world.sent(f"T{index}", f"D{number}", message)
    return world


def deliver_target(world: World, index: int, source: str, message: Any, scope: Scope) -> World:
    """Return the world after a target received one message."""
    peer = world.targets[index]
    session = peer.session
    if message == DOWN:
        return _link_down(world, index, source)
    if isinstance(message, Block):
        return _block(world, index, source, message)
    if isinstance(message, TargetOpen):
        return world.put_target(index, TargetPeer(session=targeting.opened(message, _target_bounds(scope))))
    if session is None or session.sid != message.sid:
        return world
    match message:
        case Commit():
            return _act_target(world, index, targeting.committed(session, message))
        case Recall():
            return _act_target(world, index, targeting.recalled(session, message))
        case TargetTicket():
            return _act_target(world, index, targeting.assigned(session, message.ticket))
        case TargetClose():
            return _act_target(world, index, targeting.closed(session, message))
    raise Violation(f"T{index} got {message}")


def _link_down(world: World, index: int, source: str) -> World:
    session = world.targets[index].session
    draft = world.drafts[int(source[1:])]
    ticket = draft.session.target.ticket if draft.session else None
    if session is None:
        return world
    tickets = [ticket] if ticket else list(session.tickets)
    for known in tickets:
        if known in session.tickets:
            world = world.sent(f"T{index}", "O", LinkState(known, f"T{index}", up=False))
    return world


def _block(world: World, index: int, source: str, block: Block) -> World:
    session = world.targets[index].session
    if session is None or block.ticket not in session.tickets:
        receipt = Receipt(block.ticket, block.round, block.digest, ReceiptCode.UNKNOWN)
        return world.sent(f"T{index}", source, receipt)
    outcome = mailbox.received(session, block)
    receipts = [a for a in outcome[1] if isinstance(a, t.Answer) and isinstance(a.message, Receipt)]
    if len(receipts) != 1:
        raise Violation(f"T{index} gave {len(receipts)} receipts for {block}")
    limits = outcome[0].bounds.mailbox
    if len(outcome[0].mailbox) > limits.blocks or len(outcome[0].tickets) > 2:
        raise Violation(f"T{index} holds too much: {outcome[0]}")
    return _act_target(world, index, outcome)


def target_moves(world: World, index: int, scope: Scope) -> Iterator[tuple[str, World]]:
    """Yield what a target may do of itself: prefill, end a wait, build a step, finish it."""
    peer = world.targets[index]
    session = peer.session
    if not peer.alive or session is None:
        return
    if session.phase is t.Phase.PREFILL:
        ready = replace(session, cached=len(session.sequence.tokens) - 1)
        yield f"T{index} prefilled", _act_target(world, index, targeting.prefilled(ready))
    if session.phase is t.Phase.WAIT:
        yield f"T{index} waited", _act_target(world, index, targeting.waited(session))
    if step.buildable(session):
        if peer.work is not None:
            raise Violation(f"T{index} builds a step for a session that is in the running one")
        running, work = step.build(session)
        _check_work(world, running, work)
        plain = session.block is None
        yield f"T{index} builds", world.put_target(index, TargetPeer(session=running, work=work, plain=plain))
    if session.phase is t.Phase.RUN and peer.work is not None:
        yield f"T{index} steps", _step(world, index, peer, peer.work)


def _check_work(world: World, session: t.Session, work: step.Work) -> None:
    """What enters the cache must stand on the right context, and a block must assume exactly that context."""
    context = session.context
    if context != reference(len(context) - session.sequence.prompt_len):
        raise Violation(f"a step on a wrong context: {context}")
    if not work.rows or work.cached + len(work.rows) != len(context) + len(work.candidates):
        raise Violation(f"rows do not fit the context: {work}")
    if session.block is not None and session.commit is not None:
        if session.block.digest != digests.extend(digests.EMPTY, context):
            raise Violation("a block is verified on a context that it does not assume")
        if session.block.ticket != getattr(session.commit.order, "ticket", None):
            raise Violation("a block is verified under a ticket that the Commit does not name")


def _step(world: World, index: int, peer: TargetPeer, work: step.Work) -> World:
    session = peer.session
    assert session is not None
    emit: list[int | None] = []
    context = session.context
    kept = 0
    for candidate in (*work.candidates, None):
        right = next_token(context)
        emit.append(right)
        if candidate != right:
            break
        context += (right,)
        kept += 1
    emit += [None] * (len(work.candidates) + 1 - len(emit))
    acceptance = tuple(float(i < kept) for i in range(len(work.candidates)))
    emitted = emit[kept]
    assert emitted is not None
    stepped = step.Stepped(Evidence(acceptance, tuple(emit), None), Verdict(kept, emitted))
    world = world.put_target(index, replace(peer, work=None))
    if peer.plain:
        return _act_target(world, index, step.stepped_plain(session, work, emitted, stepped))
    return _act_target(world, index, step.verified(session, work, stepped))


def _act_draft(world: World, index: int, outcome: d.Outcome) -> World:
    session, actions = outcome
    peer = world.drafts[index]
    gone = session.phase is d.Phase.GONE
    world = world.put_draft(index, replace(peer, session=None if gone else session))
    for action in actions:
        match action:
            case d.Tell(event):
                if getattr(event, "code", None) is LossCode.PROTOCOL:
                    raise Violation(f"D{index}: {event}")
                world = world.sent(f"D{index}", "O", event)
            case d.Push(block):
                world = _push(world, index, block, session.target.address)
            case d.PushLater():
                world = world.put_draft(index, replace(world.drafts[index], later=True))
    return world


def _push(world: World, index: int, block: Block, address: str) -> World:
    """Send a block to a target that lives; where it does not, the link's end is known and nothing is sent."""
    if world.targets[int(address[1:])].alive:
        return world.sent(f"D{index}", address, block)
    return world


def deliver_draft(world: World, index: int, message: Any, scope: Scope) -> World:
    """Return the world after a draft received one message."""
    peer = world.drafts[index]
    session = peer.session
    if isinstance(message, DraftOpen):
        bounds = d.Bounds(longest_length=64, gamma_max=scope.gamma, drafter=Drafter.MODEL)
        return world.put_draft(index, DraftPeer(session=drafting.opened(message, bounds)))
    if session is None:
        return world
    match message:
        case Advance() if message.sid == session.sid:
            return _act_draft(world, index, drafting.advanced(session, message))
        case DraftClose() if message.sid == session.sid:
            return _act_draft(world, index, drafting.closed(session))
        case VerdictNotice():
            return _act_draft(world, index, drafting.verdict_came(session, message))
        case Receipt():
            return _act_draft(world, index, drafting.receipt_came(session, message))
    return world


def draft_moves(world: World, index: int) -> Iterator[tuple[str, World]]:
    """Yield what a draft may do of itself: prefill, draw right or wrong, run out of time, ship ahead."""
    peer = world.drafts[index]
    session = peer.session
    if not peer.alive or session is None:
        return
    if session.phase is d.Phase.PREFILL:
        yield f"D{index} prefilled", _act_draft(world, index, reading.read(session, reading.next_read(session, 99)))
    if session.phase is d.Phase.DRAFT:
        yield from _draws(world, index, session)
        if "send_by" in world.rest.faults:
            left = tuple(f for f in world.rest.faults if f != "send_by")
            spent = replace(world, rest=replace(world.rest, faults=left))
            yield f"D{index} send_by", _act_draft(spent, index, writing.send(session))
    if peer.later and session.phase is d.Phase.SENT:
        again = world.put_draft(index, replace(peer, later=False))
        yield f"D{index} again", _act_draft(again, index, drafting.again(session))
    if session.phase is d.Phase.SENT and world.rest.ships:
        yield from _ships(world, index, session)
    if session.phase is d.Phase.IDLE and session.unfollowed and not session.assumed:
        compared = reading.compare(session)
        yield f"D{index} follows", _act_draft(world, index, reading.followed(session, compared, compared.count))


def _draws(world: World, index: int, session: d.Session) -> Iterator[tuple[str, World]]:
    work = writing.draw(session)
    if not work.rows:
        raise Violation(f"D{index} draws without a row: {session}")
    right = next_token(session.context)
    yield f"D{index} draws right", _act_draft(world, index, writing.drawn(session, work, writing.Drawn((right,), None)))
    if world.rest.wrong:
        spent = replace(world, rest=replace(world.rest, wrong=world.rest.wrong - 1))
        result = writing.Drawn((3 - right,), None)
        yield f"D{index} draws wrong", _act_draft(spent, index, writing.drawn(session, work, result))


def _ships(world: World, index: int, session: d.Session) -> Iterator[tuple[str, World]]:
    """Ship a block for the next round ahead of the verdict, for every outcome that could be."""
    sent = session.writing
    assert sent is not None
    spent = replace(world, rest=replace(world.rest, ships=world.rest.ships - 1))
    for kept in range(len(sent.ids) + 1):
        for token in VOCABULARY:
            gained: Tokens = (*sent.ids[:kept], token)
            digest = digests.extend(sent.digest, gained)
            block = Block(session.target.ticket, sent.round + 1, sent.base + len(gained), digest, (1,), Drafter.MODEL)
            yield f"D{index} ships {gained}", _push(spent, index, block, session.target.address)


def faults(world: World) -> Iterator[tuple[str, World]]:
    """Yield the faults that may still happen: a dead draft, a dead target, a broken draft–target link."""
    rest = world.rest

    def without(name: str) -> World:
        return replace(world, rest=replace(rest, faults=tuple(f for f in rest.faults if f != name)))

    if "draft_dies" in rest.faults and rest.draft is not None and world.drafts[rest.draft].alive:
        name = f"D{rest.draft}"
        dead = without("draft_dies").without_links(name).put_draft(rest.draft, DraftPeer(alive=False))
        dead = dead.sent(name, "O", "gone")
        for index, peer in enumerate(world.targets):
            dead = dead.sent(name, f"T{index}", DOWN) if peer.alive else dead
        yield f"{name} dies", dead
    if "target_dies" in rest.faults and rest.target is not None and world.targets[rest.target].alive:
        name = f"T{rest.target}"
        dead = without("target_dies").without_links(name).put_target(rest.target, TargetPeer(alive=False))
        yield f"{name} dies", dead.sent(name, "O", "gone")
    if "link_down" in rest.faults and rest.draft is not None and rest.target is not None:
        yield from _break_link(without("link_down"), rest.draft, rest.target)


def _break_link(world: World, draft: int, target: int) -> Iterator[tuple[str, World]]:
    """Break one draft–target link: what was on it is lost, both ends report, the draft dials again."""
    session = world.drafts[draft].session
    ends = (f"D{draft}", f"T{target}")
    alive = world.drafts[draft].alive and world.targets[target].alive
    if session is None or not alive or session.target.address != ends[1]:
        return
    world = world.with_link(*ends, ()).with_link(ends[1], ends[0], ())
    world = world.sent(ends[0], "O", LinkState(session.target.ticket, ends[1], up=False))
    world = world.sent(ends[1], "O", LinkState(session.target.ticket, ends[1], up=False))
    world = world.sent(ends[0], "O", LinkState(session.target.ticket, ends[1], up=True))
    yield f"link {ends} breaks", world.put_draft(draft, replace(world.drafts[draft], later=True))


__all__ = ["Rule", "deliver_draft", "deliver_target", "draft_moves", "faults", "target_moves"]
