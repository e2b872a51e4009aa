"""Draft-ahead leaves the law of the text alone: blocks are drawn before the outcome that they assume is known."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import pytest

from foreword.acceptance import decide, gather
from foreword.addresses.keys import Address
from foreword.protocol import digest
from foreword.protocol.messages import SparseCounts
from foreword.protocol.words import Rule
from tests.statistical import enumeration
from tests.statistical.enumeration import DRAFT_KEY, KEYS, Alias, Drafted, Outcome, Session, State, Style, Tables, Text
from tests.statistical.tape import Tape, runs
from tests.statistical.test_exact_rounds import EXACT, PAIRS, up_to
from tests.statistical.test_planted_bugs import SEEN

Name = tuple[int, int]
"""Round and digest of what a block assumes."""


@dataclass(frozen=True, slots=True)
class Ahead(State):
    """A session with blocks that were prepared for the next round."""

    prepared: tuple[tuple[Name, Drafted], ...] = ()


def likeliest(tables: Tables, text: Text, ids: Text, kept: int) -> int:
    """Return the token that a draft ranks first there, the candidate left out."""
    law = tables.draft((*text, *ids[:kept]))
    others = [token for token in range(tables.vocabulary) if kept == len(ids) or token != ids[kept]]
    return max(others, key=law.probability_of)


@dataclass(frozen=True, slots=True)
class AheadSession(Session):
    """Runs rounds as a draft does that prepares one outcome for each number of kept candidates."""

    planted_name: Callable[[Name], Name] = lambda name: name
    """What of its name a prepared block is found by."""
    planted_keep: bool = False
    """Whether blocks stay prepared after their round."""
    planted_pick: Callable[[Drafted], bool] = lambda block: True
    """Whether a prepared block is used, by what was drawn for it."""
    shows: bool = False
    """Whether the controller sees what was prepared for outcomes that did not come, as if it had been shipped to it."""
    remember: tuple[bytes, ...] = ()
    """Keys whose numbers are the same when they are read again; those that only honest sessions spend are left out."""

    def step(self, state: State, tape: Tape) -> State:
        """Run one block, and prepare for what may follow before it is verified."""
        assert isinstance(state, Ahead)
        rule, base = self.rule(state), len(state.text)
        name = self.planted_name((state.round, digest.extend(digest.EMPTY, state.text)))
        known = dict(state.prepared)
        block = known.get(name)
        if block is None or not self.planted_pick(block):
            block = self._draft(state, tape, rule, base)
        block = Drafted(block.ids[: self.gamma(state)], _cut(block, self.gamma(state)))
        ahead = self._prepare(state, tape, block)
        laws = [self.tables.target(state.text + block.ids[:i]) for i in range(len(block.ids) + 1)]
        evidence = gather(rule, laws, block.ids, block.law, keys=KEYS, round=state.round, base=base, source=tape)
        verdict = decide(rule, evidence, coin_key=KEYS.coin, round=state.round, base=base, source=tape)
        outcome = Outcome(block.ids, verdict.kept, evidence.acceptance)
        lost = tape.branch([1.0 - self.lost(state), self.lost(state)])
        came = () if lost else (*block.ids[: verdict.kept], tape.settle(verdict.emitted))
        after = self._after(state, came, outcome)
        prepared = ahead | (known if self.planted_keep else {})
        if self.planted_keep:
            prepared[self.planted_name((state.round, digest.extend(digest.EMPTY, state.text)))] = block
        came_true = (after.round, digest.extend(digest.EMPTY, after.text))
        others = [one for name, one in ahead.items() if name != came_true]
        seen = sum(sum(one.ids) + len(one.ids) for one in others) % 3 if self.shows else after.seen
        return Ahead(after.text, after.blocks, after.round, seen, prepared=tuple(sorted(prepared.items(), key=_first)))

    def _prepare(self, state: State, tape: Tape, block: Drafted) -> dict[Name, Drafted]:
        found: dict[Name, Drafted] = {}
        for kept in range(len(block.ids) + 1):
            text = (*state.text, *block.ids[:kept], likeliest(self.tables, state.text, block.ids, kept))
            then = State(text, state.blocks + 1, round=state.round + 1)
            if self.gamma(then) > 0:
                name = self.planted_name((then.round, digest.extend(digest.EMPTY, text)))
                found[name] = self._draft(then, tape, self.rule(then), len(text))
        return found


def _first(item: tuple[Name, Drafted]) -> Name:
    return item[0]


def _cut(block: Drafted, gamma: int) -> tuple[SparseCounts, ...] | enumeration.OneHot | None:
    return block.law[:gamma] if isinstance(block.law, tuple) else block.law


def distance(session: AheadSession, horizon: int) -> float:
    """Return the total variation distance from the target's law of the first tokens."""
    done: dict[Text, float] = {}
    frontier: dict[State, float] = {Ahead(): 1.0}
    while frontier:
        following: dict[State, float] = {}
        for state, weight in frontier.items():
            for after, tape in runs(partial(session.step, state), partial(_tape, session, state)):
                if len(after.text) >= horizon:
                    text = after.text[:horizon]
                    done[text] = done.get(text, 0.0) + weight * tape.weight
                    continue
                memory = frozenset(item for item in tape.intervals.items() if item[0][0] in _kept(session))
                key = replace(after, memory=memory)
                following[key] = following.get(key, 0.0) + weight * tape.weight
        frontier = following
    texts = itertools.product(range(session.tables.vocabulary), repeat=horizon)
    return 0.5 * sum(abs(done.get(text, 0.0) - session.tables.probability(text)) for text in texts)


def _kept(session: AheadSession) -> tuple[bytes, ...]:
    """Return the keys whose numbers may be read again: the target's own, and what a planted bug reads twice."""
    return (KEYS.match, *session.remember, *(session.planted_alias.keys if session.planted_alias else ()))


def _tape(session: AheadSession, state: State, script: tuple[int, ...]) -> Tape:
    return Tape(script, dict(state.memory), alias=session.planted_alias or (lambda place: place))


def honest(rule: Rule, style: Style = Style.COUNTS, *, horizon: int = 4, gamma: int = 2) -> AheadSession:
    return AheadSession(lambda _: rule, style, Tables(2), bits=4, gamma=up_to(gamma, horizon))


@pytest.mark.parametrize(("rule", "style"), PAIRS)
def test_blocks_that_were_prepared(rule: Rule, style: Style) -> None:
    assert distance(honest(rule, style), 4) < EXACT


@pytest.mark.parametrize(("rule", "style"), PAIRS)
def test_prepared_blocks_when_a_result_is_lost(rule: Rule, style: Style) -> None:
    session = replace(honest(rule, style, gamma=1), lost=lambda state: 0.5 if state.blocks == 0 else 0.0)
    assert distance(session, 3) < EXACT


trusting = pytest.mark.parametrize("rule", [Rule.TOKEN, Rule.BLOCK])


@trusting
def test_a_stale_block_is_noticed(rule: Rule) -> None:
    """The planted bug: found by its digest alone, a block that was verified once comes back when its result is lost."""
    session = replace(
        honest(rule),
        gamma=lambda state: min((2, 0, 1)[state.seen], 3 - len(state.text)),
        lost=lambda state: 0.6 if state.blocks == 0 else 0.0,
        note=lambda outcome: (sum(outcome.ids) + outcome.kept) % 3,
    )
    assert distance(session, 3) < EXACT
    assert distance(replace(session, planted_keep=True, planted_name=lambda name: (0, name[1])), 3) > SEEN


@trusting
def test_numbers_that_outcomes_share_are_noticed(rule: Rule) -> None:
    """The planted bug: alternatives for one round are drawn with the same numbers, and the others were looked at."""
    session = replace(
        honest(rule),
        tables=Tables(3),
        bits=3,
        gamma=lambda state: min((1, 0, 1)[state.seen] if state.blocks else 1, 3 - len(state.text)),
        shows=True,
    )
    assert distance(session, 3) < EXACT
    shared = Alias((DRAFT_KEY,), lambda place: (place[0], Address(0, place[1].round)))
    assert distance(replace(session, planted_alias=shared), 3) > SEEN


@trusting
def test_a_prepared_block_that_is_refused_for_what_is_in_it_is_noticed(rule: Rule) -> None:
    """The planted bug: it is drawn again with other numbers. With those of its address it is the same block again."""
    session = replace(honest(rule), planted_pick=lambda block: block.ids[:1] != (0,))
    assert distance(replace(session, remember=(DRAFT_KEY,)), 3) < EXACT
    assert distance(session, 3) > SEEN
