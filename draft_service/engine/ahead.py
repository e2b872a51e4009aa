"""Draft-ahead: while blocks are being verified and nothing else is to be done, prepare for the likeliest outcomes.

A tree of branches belongs to every session whose block is out. A pass first looks behind the block's candidates, then
branches draw candidate by candidate, those of all sessions together. When the outcome is known, the branch that
assumed it becomes the session, and what follows it stays prepared; all others are freed. Before that the likeliest
complete ones may be shipped to the target, if the newest order allows some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from draft_service.ahead.forecast import BLIND, Forecast
from draft_service.ahead.times import PassTimes
from draft_service.core.outcomes import begins, foreseen, has_outcomes, name_of, resumed, supposed, what_came
from draft_service.core.state import Free, Outcome, Phase, Session
from draft_service.core.writing import to_block
from draft_service.drafters.foresight import Foresight
from draft_service.drafters.pen import Pen
from draft_service.drafters.port import Drafter
from draft_service.engine.branches import Branch, Tree, Waits
from draft_service.engine.foreplan import Foreplan, Pass, open_looks
from draft_service.engine.outgoing import Fate, Outgoing
from draft_service.engine.table import Entry
from draft_service.engine_messages import LinkUp
from foreword.errors import ForewordError
from foreword.protocol.messages import Receipt
from foreword.values import replace


class Ahead:
    """The branches of all sessions of an engine; one thread uses it."""

    def __init__(
        self,
        drafter: Drafter,
        foresight: Foresight,
        outgoing: Outgoing,
        *,
        branches: int,
        times: PassTimes,
        now_ns: Callable[[], int],
        new_slot: Callable[[], int],
    ) -> None:
        self._drafter = drafter
        self._foresight = foresight
        self._outgoing = outgoing
        self._times = times
        self._now_ns = now_ns
        self._new_slot = new_slot
        self._forecast = Forecast()
        self._waits = Waits()
        self._plan = Foreplan(times, self._waits, self._forecast, branches=branches)
        self._trees: dict[int, Tree] = {}
        self._next: Pass | None = None
        """The pass that was found worth its time when last asked, while nothing has happened since."""
        self._shipped: dict[int, list[int]] = {}
        """Rounds of blocks that were shipped, those too whose outcomes did not come: they wait at the target."""

    @property
    def tokens(self) -> int:
        """Tokens in the slots of branches."""
        return sum(branch.tokens for tree in self._trees.values() for branch in tree.followers)

    @property
    def branches(self) -> int:
        """Branches of all sessions."""
        return sum(len(tree.followers) for tree in self._trees.values())

    # What happens to sessions

    def carried_on(self, entry: Entry, outcome: Outcome, cause_ns: int | None) -> Outcome:
        """Return the outcome of a transition, with the block that was prepared for it if there is one.

        `cause_ns` is when the message came that caused it, which may have waited for the end of a pass.
        """
        session, actions = outcome
        now_ns = self._now_ns()
        self._next = None
        tree = self._trees.get(entry.slot)
        if tree is not None:
            if not any(isinstance(action, Free) for action in actions) and _is_out(session, tree.root):
                tree.root.session = session
                return outcome
            del self._trees[entry.slot]
            outcome = self._resolved(tree, outcome, now_ns, waited_ns=(cause_ns or now_ns) - tree.since_ns)
        if has_outcomes(outcome[0]) and entry.slot not in self._trees:
            self._trees[entry.slot] = Tree.of(entry, outcome[0], now_ns)
        if outcome[0].phase is Phase.GONE:
            self._waits.forget(entry.slot)
            self._shipped.pop(entry.slot, None)
        return outcome

    def received(self, entry: Entry, receipt: Receipt) -> None:
        """A receipt came that says more than that a block is held: what was not, goes out when its outcome comes."""
        tree = self._trees.get(entry.slot)
        for branch in tree.followers if tree is not None else ():
            if branch.shipped_ns is not None and branch.name[:2] == (receipt.round, receipt.digest):
                self._unship(entry.slot, branch)
                self._outgoing.count(f"shipped_{receipt.code.name.lower()}")

    def came_up(self, link: LinkUp) -> None:
        """A link came up: what was shipped to that target before went to nobody, and goes again."""
        for tree in self._trees.values():
            if tree.entry.session.target.address == link.address:
                for branch in tree.followers:
                    if branch.shipped_ns is not None and branch.shipped_ns < link.up_ns:
                        self._unship(tree.entry.slot, branch)
                self._ship(tree)

    def _unship(self, slot: int, branch: Branch) -> None:
        branch.shipped_ns = None
        waits = self._shipped.get(slot, [])
        if branch.name[0] in waits:
            waits.remove(branch.name[0])

    def release(self) -> bool:
        """Free all branches, for the sake of memory; return whether there were any."""
        found = self.branches > 0
        self._next = None
        for tree in self._trees.values():
            self._close(tree.followers)
            tree.give_up()
        return found

    def _resolved(self, tree: Tree, outcome: Outcome, now_ns: int, *, waited_ns: int) -> Outcome:
        """The block of a tree is over: go on with the branch that has come true, and free the others."""
        session, actions = outcome
        root, slot = tree.root, tree.entry.slot
        followers = tree.followers
        came = None if session.phase is Phase.GONE else what_came(root.session, session)
        chosen = root.children.get(name_of(session.writing)) if begins(session) and session.writing else None
        if chosen is not None and not self._take_over(slot, chosen, session):
            chosen = None
        if came is not None:
            hit = chosen is not None and bool(chosen.written)
            self._learn(tree, *came, hit=hit, waited_ns=waited_ns)
        if chosen is None:
            self._close(followers)
            return outcome
        kept = set(chosen.all())
        self._close(branch for branch in followers if branch not in kept)
        shipped_ns = chosen.shipped_ns if self._is_shipped(chosen, session) else None
        session, more = resumed(session, chosen.gathered(), stopped=chosen.stopped, shipped_ns=shipped_ns)
        if has_outcomes(session):
            chosen.slot, chosen.session, chosen.pen = slot, session, None
            self._trees[slot] = Tree.rooted(tree.entry, chosen, now_ns)
            self._open(self._trees[slot])
        else:
            self._close(branch for branch in kept if branch is not chosen)
        return session, (*actions, *more)

    def _take_over(self, slot: int, chosen: Branch, session: Session) -> bool:
        shipped = self._is_shipped(chosen, session)
        return self._foresight.take_over(slot, chosen.slot, session, chosen.gathered(), shipped=shipped)

    @staticmethod
    def _is_shipped(branch: Branch, session: Session) -> bool:
        return branch.shipped_ns is not None and branch.session.target.ticket == session.target.ticket

    def _learn(self, tree: Tree, kept: int, token: int, *, hit: bool, waited_ns: int) -> None:
        root = tree.root
        self._waits.note(tree.entry.slot, max(0, waited_ns))
        if root.outlook is None or not root.outlook.rankings:
            return
        ending = self._forecast.learn(root.block, root.outlook, kept, token)
        self._plan.came(hit=hit)
        self._outgoing.foresaw(Fate.HIT if hit else Fate.MISS, ending)

    def _close(self, branches: Iterable[Branch]) -> None:
        for branch in branches:
            self._drafter.close(branch.slot)

    # Passes

    def wants_a_pass(self) -> bool:
        """Whether a pass is worth its time now."""
        self._next = self._plan.next_pass(self._trees, self._now_ns())
        return self._next is not None

    def work(self) -> None:
        """Do one pass, if it is worth its time."""
        began_ns = self._now_ns()
        work = self._next or self._plan.next_pass(self._trees, began_ns)
        self._next = None
        if work is None:
            return
        for tree, branch, job in work.looking:
            self._set(tree, branch, replace(branch.session, cached=job.cached))
        pens = [branch.pen for _, branch in work.drawing if branch.pen is not None]
        try:
            drawn, outlooks = self._foresight.look_ahead(pens, [job for *_, job in work.looking])
        except ForewordError:
            self._failed(work)
            return
        self._times.note(work.rows, self._now_ns() - began_ns)
        for (tree, branch), result in zip(work.drawing, drawn, strict=True):
            if isinstance(result, ForewordError):
                self._drop(tree, branch)
            else:
                branch.draw(result)
        for (tree, branch, job), outlook in zip(work.looking, outlooks, strict=True):
            self._set(tree, branch, foreseen(branch.session, job.rows, job.cached))
            branch.outlook = BLIND if isinstance(outlook, ForewordError) else outlook
        for tree in work.trees:
            if not tree.drafting and not open_looks(tree):
                self._open(tree)
            self._ship(tree)

    def _open(self, tree: Tree) -> None:
        """Open branches for the likeliest outcomes of blocks that were looked behind."""
        others = sum(len(other.drafting) for other in self._trees.values())
        for probability, parent, guess in self._plan.options(tree, self._now_ns(), others=others):
            session = supposed(parent.session, guess)
            if session is None:
                continue
            slot = self._new_slot()
            self._foresight.branch(parent.slot, slot, session.cached, salt=tree.entry.salt)
            branch = Branch(slot, session, probability, guess, parent.depth + 1, Pen(slot, session))
            tree.add(parent, branch)
            self._outgoing.foresaw(Fate.PREPARED, guess.ending)

    def _ship(self, tree: Tree) -> None:
        """Send the likeliest blocks as they are complete; so many may be ahead as the newest order allows."""
        session, slot = tree.entry.session, tree.entry.slot
        waits = [round for round in self._shipped.get(slot, ()) if round > tree.root.name[0]]
        left = (session.order.alternatives if session.order is not None else 0) - len(waits)
        if left <= 0:
            return
        ticket = session.target.ticket
        waiting = [one for one in tree.followers if one.shipped_ns is None and one.session.target.ticket == ticket]
        waiting.sort(key=lambda branch: -branch.probability)
        for branch in waiting[:left]:
            if branch.pen is None:
                assert branch.guess is not None
                branch.shipped_ns = self._now_ns()
                waits.append(branch.name[0])
                self._outgoing.push(session.target.address, to_block(branch.session))
                self._outgoing.foresaw(Fate.SHIPPED, branch.guess.ending)
        self._shipped[slot] = waits

    def _set(self, tree: Tree, branch: Branch, session: Session) -> None:
        branch.session = session
        if branch is tree.root:
            tree.entry.session = session

    def _drop(self, tree: Tree, branch: Branch) -> None:
        """Free a branch whose draw failed; nothing follows it yet."""
        self._close([branch])
        tree.remove(branch)

    def _failed(self, work: Pass) -> None:
        """A pass ahead failed, most likely for want of memory: it costs no session anything."""
        self._outgoing.count("ahead_failed")
        for tree in work.trees:
            self._close(tree.followers)
            tree.give_up()


def _is_out(session: Session, root: Branch) -> bool:
    """Whether the block of a tree's root is still the one that is out, and another is to follow it."""
    return has_outcomes(session) and session.writing is not None and name_of(session.writing) == root.name
