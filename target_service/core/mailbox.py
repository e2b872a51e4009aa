"""Blocks that arrive: joined with the Commit of their round, kept for a later one, or refused; pure.

Every block gets exactly one receipt, in every state (docs/protocol.md, invariant 6).
"""

from __future__ import annotations

from foreword.errors import ForewordError
from foreword.laws.counts import validate
from foreword.protocol.messages import Block, BlockOrder, Commit, OneHot, Receipt
from foreword.protocol.words import ReceiptCode, Rule
from foreword.values import replace
from target_service.core.state import Answer, Bounds, Count, Outcome, Phase, Session


def received(session: Session, block: Block) -> Outcome:
    """A block came under one of the session's tickets; more candidates than are verified at once are cut off."""
    block = shortened(block, session.bounds.gamma_max)
    if block.round > session.round:
        return _keep(session, block)
    if block.round < session.round:
        return session, (_receipt(block, ReceiptCode.STALE),)
    if session.commit is None:
        return session, (_receipt(block, ReceiptCode.LATE),)
    order = session.commit.order
    waiting = session.phase is Phase.WAIT or (session.phase is Phase.READY and session.block is None)
    if not isinstance(order, BlockOrder) or not waiting or block.ticket != order.ticket:
        same = session.block is not None and session.block.digest == block.digest
        return session, (_receipt(block, ReceiptCode.STALE if same else ReceiptCode.LATE),)
    if (block.base, block.digest) != (session.commit.base, session.commit.digest):
        return session, (_receipt(block, ReceiptCode.STALE), Count("stale_block"))
    reason = unusable(block, session.commit, session.bounds)
    if reason:
        # Its one block of this round was this one, so no other will come: do not wait.
        session = replace(session, phase=Phase.READY)
        return session, (_receipt(block, ReceiptCode.BAD, reason), Count("bad_block"))
    return replace(session, phase=Phase.READY, block=block), (_receipt(block, ReceiptCode.TAKEN),)


def shortened(block: Block, most: int) -> Block:
    """Return the block with at most so many candidates; what is refused anyway stays as it is."""
    if len(block.ids) <= most or block.parents is not None:
        return block
    if not isinstance(block.law, tuple):
        return replace(block, ids=block.ids[:most])
    return replace(block, ids=block.ids[:most], law=block.law[:most]) if len(block.law) == len(block.ids) else block


def unusable(block: Block, commit: Commit, bounds: Bounds) -> str:
    """Return why this block cannot be verified under this Commit, or an empty text."""
    if (block.base, block.digest) != (commit.base, commit.digest):
        return f"base: got {block.base} with digest {block.digest:016x}, wanted {commit.base} with {commit.digest:016x}"
    reason = malformed(block, bounds)
    if reason:
        return reason
    if commit.rule is not Rule.MATCH and block.ids and block.law is None:
        return f"law: got none, wanted counts or one-hot under the rule {commit.rule.name.lower()}"
    return ""


def malformed(block: Block, bounds: Bounds) -> str:
    """Return what no Commit could make good, or an empty text."""
    if block.parents is not None:
        return "parents: got a tree, wanted a chain"
    for token in block.ids:
        if not 0 <= token < bounds.vocabulary_size:
            return f"ids: got {token}, wanted ids from 0 to {bounds.vocabulary_size - 1}"
    if block.law is None or isinstance(block.law, OneHot):
        return ""
    if len(block.law) != len(block.ids):
        return f"law: got {len(block.law)} laws, wanted one for each of {len(block.ids)} candidates"
    try:
        for candidate, law in zip(block.ids, block.law, strict=True):
            validate(law, candidate, bounds.vocabulary_size)
    except ForewordError as error:
        return error.message
    return ""


def _keep(session: Session, block: Block) -> Outcome:
    """Hold a block for a later round: first wins, bounded in number and in size."""
    reason = malformed(block, session.bounds)
    if reason:
        return session, (_receipt(block, ReceiptCode.BAD, reason), Count("bad_block"))
    if any((b.ticket, b.round, b.digest) == (block.ticket, block.round, block.digest) for b in session.mailbox):
        return session, (_receipt(block, ReceiptCode.STALE),)
    limits = session.bounds.mailbox
    held = sum(size(b) for b in session.mailbox)
    if len(session.mailbox) >= limits.blocks or held + size(block) > limits.tokens:
        return session, (_receipt(block, ReceiptCode.FULL), Count("full_mailbox"))
    return replace(session, mailbox=(*session.mailbox, block)), (_receipt(block, ReceiptCode.HELD),)


def size(block: Block) -> int:
    """Return the number of candidates and support entries of a block."""
    laws = block.law if isinstance(block.law, tuple) else ()
    return len(block.ids) + sum(len(law.ids) for law in laws)


def _receipt(block: Block, code: ReceiptCode, message: str = "") -> Answer:
    return Answer(Receipt(block.ticket, block.round, block.digest, code, message))
