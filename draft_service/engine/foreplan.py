"""What the next pass ahead does, and for which outcomes branches are opened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from draft_service.ahead.forecast import Forecast
from draft_service.ahead.times import PassTimes
from draft_service.ahead.worth import Stake, affordable, expected_left_ns, gain_ns, worth_a_pass
from draft_service.core.outcomes import Guess, has_outcomes
from draft_service.drafters.foresight import LookJob
from draft_service.engine.branches import Branch, Tree, Waits

DEEPEST = 2
"""Outcomes in a row that are prepared for."""
LEAST_LIKELY = 0.02
"""A block that comes to be with less than this is not looked behind."""
LOOKS = 12
"""Most blocks of one session that a pass looks behind, once its own has been."""
LEAST_WORTH = 0.003
"""An outcome that comes with less than this is not prepared for."""
HELD = 4
"""Blocks that one session may have prepared, for each branch that may be drafted at a time."""
_HIT_RATE = 0.7
"""Share of outcomes that were prepared, before any came."""
_NEWEST = 0.05

Option = tuple[float, Branch, Guess]
"""An outcome of a branch's block, and how likely both come."""


@dataclass(frozen=True, slots=True)
class Pass:
    """Who takes part in a pass."""

    drawing: list[tuple[Tree, Branch]]
    looking: list[tuple[Tree, Branch, LookJob]]

    @classmethod
    def of(cls, parts: Iterable[tuple[Tree, list[Branch]]]) -> Pass:
        """Return the pass that draws for branches that are not complete, and looks behind the blocks of others."""
        drawing: list[tuple[Tree, Branch]] = []
        looking: list[tuple[Tree, Branch, LookJob]] = []
        for tree, part in parts:
            for branch in part:
                if branch.pen is not None:
                    drawing.append((tree, branch))
                elif (job := branch.look_job()) is not None:
                    looking.append((tree, branch, job))
        return cls(drawing, looking)

    @property
    def rows(self) -> int:
        """Rows that enter caches."""
        return len(self.drawing) + sum(len(job.rows) for *_, job in self.looking)

    @property
    def trees(self) -> list[Tree]:
        """The trees that take part, each once."""
        every = [tree for tree, _ in self.drawing] + [tree for tree, *_ in self.looking]
        return list({tree.entry.slot: tree for tree in every}.values())


class Foreplan:
    """Decides by what passes take, how long blocks are out, and how likely outcomes are."""

    def __init__(self, times: PassTimes, waits: Waits, forecast: Forecast, *, branches: int) -> None:
        self._times = times
        self._waits = waits
        self._forecast = forecast
        self._branches = branches
        self._hit_rate = _HIT_RATE

    def came(self, *, hit: bool) -> None:
        """Take note of an outcome that was prepared for, or was not."""
        self._hit_rate += _NEWEST * (hit - self._hit_rate)

    def next_pass(self, trees: Mapping[int, Tree], now_ns: int) -> Pass | None:
        """Return the pass that is worth its time, without those who gain nothing by it; None if there is none.

        Whoever has no part in a pass loses by it all the same when a verdict comes amid it.
        """
        parts = {slot: _part(tree) for slot, tree in trees.items()}
        chosen = [slot for slot, part in parts.items() if part]
        while chosen:
            work = Pass.of((trees[slot], parts[slot]) for slot in chosen)
            pass_ns = self._times.of(work.rows)
            stakes = {
                slot: self._stake(tree, parts[slot] if slot in chosen else [], now_ns) for slot, tree in trees.items()
            }
            if worth_a_pass(list(stakes.values()), pass_ns):
                return work
            gaining = [slot for slot in chosen if gain_ns(stakes[slot], pass_ns) > 0.0]
            if len(gaining) == len(chosen):
                return None
            chosen = gaining
        return None

    def options(self, tree: Tree, now_ns: int, *, others: int) -> list[Option]:
        """Return the outcomes that branches are opened for, likeliest first; `others` rows are drawn for anyway.

        They are those of all blocks that were looked behind, as far as they have none.
        """
        followers = tree.followers
        drafting = sum(branch.pen is not None for branch in followers)
        room = min(self._branches - drafting, HELD * self._branches - len(followers))
        looked = [branch for branch in (tree.root, *followers) if branch.outlook is not None]
        found = [option for parent in looked for option in self._outcomes(parent)] if room > 0 else []
        found.sort(key=lambda option: -option[0])
        del found[max(0, room) :]
        wait_ns = self._waits.of(tree.entry.slot)
        window_ns = expected_left_ns(wait_ns, now_ns - tree.since_ns)
        window_ns += max((parent.depth for _, parent, _ in found), default=0) * (wait_ns or 0.0)
        count = affordable(
            [probability for probability, *_ in found],
            window_ns=window_ns,
            gamma=tree.entry.session.gamma,
            others=others,
            pass_ns=self._times.of,
        )
        return found[:count]

    def _outcomes(self, parent: Branch) -> list[Option]:
        assert parent.outlook is not None
        taken = {(child.guess.kept, child.guess.token) for child in parent.children.values() if child.guess}
        least = LEAST_WORTH / parent.probability if parent.probability > 0.0 else 1.0
        guesses = self._forecast.guesses(parent.block, parent.outlook, most=self._branches, least=least)
        return [
            (parent.probability * guess.probability, parent, guess)
            for guess in guesses
            if (guess.kept, guess.token) not in taken
        ]

    def _stake(self, tree: Tree, part: list[Branch], now_ns: int) -> Stake:
        left_ns = expected_left_ns(self._waits.of(tree.entry.slot), now_ns - tree.since_ns)
        total = min(1.0, sum(branch.probability for branch in part))
        looks = any(branch.pen is None for branch in part)
        return Stake(left_ns, total * self._hit_rate if looks else total, later=looks)


def open_looks(tree: Tree) -> list[Branch]:
    """Return the complete blocks that would be looked behind next, likeliest first."""
    complete = [
        branch
        for branch in tree.followers
        if branch.outlook is None
        and branch.depth < DEEPEST
        and branch.probability >= LEAST_LIKELY
        and has_outcomes(branch.session)
    ]
    return sorted(complete, key=lambda branch: -branch.probability)[:LOOKS]


def _part(tree: Tree) -> list[Branch]:
    """Return the branches that would be drawn for, or else the blocks that would be looked behind."""
    if tree.root.outlook is None:
        return [tree.root]
    return tree.drafting or open_looks(tree)
