"""Branches of a session that waits for a verdict: what is prepared for each outcome, and for what may follow it.

block r, out ──┬─ 4 kept, then 17 ──► block r+1, complete ──┬─ 4 kept, then 3 ──► block r+2, two drawn
               ├─ 2 kept, then 9  ──► block r+1, complete   └─ …
               └─ …
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median

from draft_service.ahead.forecast import BLIND, Outlook
from draft_service.core import writing
from draft_service.core.outcomes import Guess, Name, name_of
from draft_service.core.state import Session
from draft_service.core.writing import Drawn
from draft_service.drafters.foresight import LookJob
from draft_service.drafters.pen import Pen
from draft_service.engine.table import Entry
from foreword.protocol.messages import Tokens

_RECENT = 16
"""Waits that count. A median: a client that was slow is not what comes next."""
MOST_UNREAD = 64
"""Tokens that are read beside a block's own; a cache that lacks more was dropped, and is not filled for this."""


@dataclass(slots=True, eq=False)
class Branch:
    """A block that is out or may come to be, in a slot; the root of a tree is the session's own."""

    slot: int
    session: Session
    """Without what its pen has drawn."""
    probability: float = 1.0
    """That all outcomes on the way to it come, given the block that is out."""
    guess: Guess | None = None
    """The outcome before it; None for the root."""
    depth: int = 0
    """Outcomes on the way to it."""
    pen: Pen | None = None
    """Its block in the making; None once that is complete."""
    stopped: bool = False
    """Whether the drafter ended its block."""
    shipped_ns: int | None = None
    """When it was shipped to the session's target."""
    outlook: Outlook | None = None
    """What may come behind its candidates; None before anybody has looked."""
    children: dict[Name, Branch] = field(default_factory=dict)

    @property
    def name(self) -> Name:
        """What its block is found by."""
        assert self.session.writing is not None
        return name_of(self.session.writing)

    @property
    def tokens(self) -> int:
        """Tokens that its slot holds."""
        return self.session.cached if self.pen is None else self.pen.cached

    @property
    def block(self) -> Tokens:
        """The candidates of its block, without what its pen has drawn."""
        assert self.session.writing is not None
        return self.session.writing.ids

    @property
    def written(self) -> Tokens:
        """What is drawn of its block."""
        return self.block + (() if self.pen is None else self.pen.ids)

    def all(self) -> Iterator[Branch]:
        """Yield this branch and all that follow it."""
        yield self
        for child in self.children.values():
            yield from child.all()

    def draw(self, drawn: Drawn) -> None:
        """Take what its pen drew in a pass."""
        assert self.pen is not None
        if self.pen.add(drawn):
            self.stopped = drawn.stop or not drawn.ids
            self.session, _ = writing.drawn(self.session, *self.pen.gathered(complete=True))
            self.pen = None

    def gathered(self) -> Session:
        """Return its session with everything that was drawn, complete or not."""
        if self.pen is None or not self.pen.ids:
            return self.session
        session, _ = writing.drawn(self.session, *self.pen.gathered(complete=False))
        return session

    def look_job(self) -> LookJob | None:
        """Return the work of looking behind its candidates; None if its cache lacks too much."""
        session = self.session
        first = session.length - len(self.block) - 1
        cached = min(session.cached, first)
        if first - cached > MOST_UNREAD:
            return None
        return LookJob(self.slot, session, cached, session.context_from(cached))


@dataclass(slots=True, eq=False)
class Tree:
    """What is prepared for one session."""

    entry: Entry
    root: Branch
    since_ns: int
    """Since when its block is out."""
    followers: list[Branch] = field(default_factory=list)
    """All branches but the session's own."""

    @classmethod
    def of(cls, entry: Entry, session: Session, now_ns: int) -> Tree:
        """Return the tree of a session whose block went out now."""
        root = Branch(entry.slot, session)
        if root.look_job() is None:
            root.outlook = BLIND
        return cls(entry, root, now_ns)

    @classmethod
    def rooted(cls, entry: Entry, root: Branch, now_ns: int) -> Tree:
        """Return the tree of a session whose block is that of a branch, with what follows it."""
        share = root.probability or 1.0
        branches = list(root.all())
        for branch in branches:
            branch.depth -= 1
            branch.probability /= share
        root.probability, root.guess = 1.0, None
        return cls(entry, root, now_ns, branches[1:])

    @property
    def drafting(self) -> list[Branch]:
        """Branches whose block is not complete."""
        return [branch for branch in self.followers if branch.pen is not None]

    def add(self, parent: Branch, branch: Branch) -> None:
        """Put a branch into the tree."""
        parent.children[branch.name] = branch
        self.followers.append(branch)

    def remove(self, branch: Branch) -> None:
        """Take a branch out of the tree that nothing follows yet."""
        self.followers.remove(branch)
        for parent in (self.root, *self.followers):
            parent.children = {name: child for name, child in parent.children.items() if child is not branch}

    def give_up(self) -> None:
        """Prepare nothing more for this block."""
        self.root.outlook = BLIND
        self.root.children = {}
        self.followers.clear()


class Waits:
    """How long blocks of each session were out before their verdict came, lately."""

    def __init__(self) -> None:
        self._recent: dict[int, deque[int]] = {}

    def note(self, slot: int, took_ns: int) -> None:
        """Take note of a wait."""
        self._recent.setdefault(slot, deque(maxlen=_RECENT)).append(took_ns)

    def of(self, slot: int) -> float | None:
        """Return the median; None before the first."""
        recent = self._recent.get(slot)
        return median(recent) if recent else None

    def forget(self, slot: int) -> None:
        """Forget a session."""
        self._recent.pop(slot, None)
