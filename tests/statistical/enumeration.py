"""The exact law of committed text over several rounds, by enumeration of table models.

Target and draft are tables: random logits for every context over a small vocabulary, made into laws by the production
pipeline. Rounds are run by the production rules on a tape that walks every outcome of draft draws, coins, residual
draws and lateness. States that are equal are merged after each round.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cache, partial

import numpy as np

from foreword.acceptance import decide, gather, plain
from foreword.addresses import draft_address
from foreword.addresses.keys import Address
from foreword.laws.counts import counts_law, to_counts
from foreword.laws.law import Law
from foreword.laws.parameters import LawParameters
from foreword.laws.pipeline import LawRows, target_laws
from foreword.lookup.automaton import SuffixAutomaton
from foreword.protocol import digest
from foreword.protocol.messages import BlockLaw, OneHot, SparseCounts, TargetKeys
from foreword.protocol.words import Rule
from tests.statistical.tape import Memory, Place, Tape, runs

Text = tuple[int, ...]

KEYS = TargetKeys(match=b"match key 16byte", emit=b"emit key 16 byte", coin=b"coin key 16 byte")
DRAFT_KEY = b"draft key 16byte"


@dataclass(frozen=True, slots=True)
class Tables:
    """A pair of models: the draft's logits are the target's plus its own."""

    vocabulary: int = 3
    seed: int = 0
    parameters: LawParameters = LawParameters()
    difference: float = 0.8
    memoryless: bool = False

    def target(self, text: Text) -> Law:
        """Return the target law after a text."""
        return _laws(self, self.parameters, text, False)

    def draft(self, text: Text) -> Law:
        """Return the draft law after a text."""
        return _laws(self, LawParameters(temperature=self.parameters.temperature or 1.0), text, True)

    def probability(self, text: Text) -> float:
        """Return the exact probability of a text."""
        return float(np.prod([self.target(text[:i]).probability_of(token) for i, token in enumerate(text)]))


@cache
def _laws(tables: Tables, parameters: LawParameters, text: Text, drafted: bool) -> Law:
    def noise(stream: int) -> np.ndarray:
        context = () if tables.memoryless else text
        return np.random.default_rng([tables.seed, stream, *context, 99]).standard_normal(tables.vocabulary)

    logits = noise(1) + tables.difference * noise(2) if drafted else noise(1)
    rows = LawRows(parameters, logits[None].astype(np.float32), output=text, first_position=len(text))
    return target_laws([rows])[0][0]


@cache
def _rounded(tables: Tables, text: Text, bits: int) -> tuple[SparseCounts, Law]:
    counts = to_counts(tables.draft(text), bits=bits, mass=1.0)
    return counts, counts_law(counts)


class Style(Enum):
    """How the draft draws."""

    COUNTS = auto()
    """From integer counts."""
    ONE_HOT = auto()
    """The likeliest token, said to be certain."""
    COUPLED = auto()
    """With the target's own numbers."""
    LIKELIEST = auto()
    LOOKUP = auto()
    """What followed an earlier occurrence of the end of the text, said to be certain; nothing where there is none."""


@dataclass(frozen=True, slots=True)
class Drafted:
    """A block: candidates and what they were drawn from."""

    ids: Text
    law: BlockLaw | None


@dataclass(frozen=True, slots=True)
class State:
    """Where a session stands after some blocks."""

    text: Text = ()
    blocks: int = 0
    """How many blocks or plain steps there were."""
    round: int = 1
    seen: int = 0
    """What the controller has noted of everything that it saw, folded into a small number."""
    memory: Memory = frozenset()


@dataclass(frozen=True, slots=True)
class Outcome:
    """All that can be seen of a verified block."""

    ids: Text
    kept: int
    acceptance: tuple[float, ...]
    emits: tuple[int, ...] = ()
    """Every token that was sent to be emitted, -1 for none; only if the session looks."""


@dataclass(frozen=True, slots=True)
class Alias:
    """A planted bug: under some keys, numbers are read from another place."""

    keys: tuple[bytes, ...]
    instead: Callable[[Place], Place]

    def __call__(self, place: Place) -> Place:
        """Return where the number of a place is read."""
        return self.instead(place) if place[0] in self.keys else place


@dataclass(frozen=True, slots=True)
class Session:
    """How rounds are run. Hooks get what the real part could know; those called planted are bugs."""

    rule: Callable[[State], Rule]
    style: Style = Style.COUNTS
    """How the draft draws under `match`; under the other rules it draws from counts, unless one-hot."""
    tables: Tables = Tables()
    quotes: Callable[[State], bool] = lambda state: False
    """Whether another part of the draft writes the block: one-hot, with a token that the text says."""
    bits: int = 6
    gamma: Callable[[State], int] = lambda state: 2
    late: Callable[[State], float] = lambda state: 0.0
    """Probability that the block comes too late: then the round is a plain step."""
    lost: Callable[[State], float] = lambda state: 0.0
    """Probability that the verdict reaches the draft but the result is lost: then the next round starts there again."""
    lease: int = 1
    """Blocks that are verified in one round."""
    stop: Callable[[Law, int], bool] = lambda law, token: False
    """Whether to end the block behind a token that was drawn from a law, and is sent."""
    note: Callable[[Outcome], int] = lambda outcome: outcome.kept
    look: bool = False
    """Whether every emit is looked at, used or not."""
    laws: Callable[[Tables, State, Text], list[Law]] | None = None
    """Makes the γ + 1 target laws of a block at once, as a target does; None asks for them one by one."""
    planted_drop: Callable[[Law, int], bool] = lambda law, token: False
    """Whether to throw a drawn token away, and end the block."""
    planted_quotes: Callable[[Law, int], bool] = lambda law, token: False
    """Whether to let the other part write the block, by what was drawn first."""
    planted_rounding: bool = False
    """Whether to draw from the law before it is rounded."""
    planted_late: Callable[[Text], bool] = lambda ids: False
    """Lateness by what was drawn."""
    planted_position: Callable[[State], int] = lambda state: len(state.text)
    """Output position of the next token."""
    planted_alias: Alias | None = None
    forget: Callable[[State], int] = lambda state: len(state.text)
    """The lowest output position at which a number may be read again."""

    def step(self, state: State, tape: Tape) -> State:
        """Run one block: draft, gather, decide, commit."""
        rule, base = self.rule(state), self.planted_position(state)
        block = self._draft(state, tape, rule, base)
        if self.planted_late(block.ids) or tape.branch([1.0 - self.late(state), self.late(state)]):
            law = self.tables.target(state.text)
            token = plain(rule, law, keys=KEYS, round=state.round, position=base, source=tape)
            return self._after(state, (tape.settle(token),), Outcome((), 0, ()))
        if self.laws is not None:
            laws = self.laws(self.tables, state, block.ids)
        else:
            laws = [self.tables.target(state.text + block.ids[:i]) for i in range(len(block.ids) + 1)]
        evidence = gather(rule, laws, block.ids, block.law, keys=KEYS, round=state.round, base=base, source=tape)
        verdict = decide(rule, evidence, coin_key=KEYS.coin, round=state.round, base=base, source=tape)
        emits = tuple(-1 if e is None else tape.settle(e) for e in evidence.emit) if self.look else ()
        outcome = Outcome(block.ids, verdict.kept, evidence.acceptance, emits)
        if tape.branch([1.0 - self.lost(state), self.lost(state)]):
            return self._after(state, (), outcome)
        return self._after(state, (*block.ids[: verdict.kept], tape.settle(verdict.emitted)), outcome)

    def _after(self, state: State, committed: Text, outcome: Outcome) -> State:
        blocks = state.blocks + 1
        return State(state.text + committed, blocks, round=blocks // self.lease + 1, seen=self.note(outcome))

    def _draft(self, state: State, tape: Tape, rule: Rule, base: int) -> Drafted:
        if self.style is Style.LOOKUP:
            return _looked_up(state.text, self.gamma(state))
        style = self.style if rule is Rule.MATCH or self.style is Style.ONE_HOT else Style.COUNTS
        if self.quotes(state):
            return self._quoted(state, rule)
        assumed = digest.extend(digest.EMPTY, state.text)
        ids: list[int] = []
        counts: list[SparseCounts] = []
        for i in range(self.gamma(state)):
            law = self.tables.draft((*state.text, *ids))
            rounded, law_of_counts = _rounded(self.tables, (*state.text, *ids), self.bits)
            if style is Style.COUNTS and not self.planted_rounding:
                law = law_of_counts
            if style is Style.COUPLED:
                token = next(tape.race(KEYS.match, [(Address(base + i), law)]))
            elif style is Style.LIKELIEST or style is Style.ONE_HOT:
                token = law.best
            else:
                token = tape.settle(tape.choose(DRAFT_KEY, [(draft_address(assumed, state.round, base + i), law)])[0])
            if self.planted_drop(law, token):
                break
            if i == 0 and self.planted_quotes(law, token):
                return self._quoted(state, rule)
            ids.append(token)
            counts.append(rounded)
            if self.stop(law, token):
                break
        if rule is Rule.MATCH:
            return Drafted(tuple(ids), None)
        return Drafted(tuple(ids), OneHot() if style is Style.ONE_HOT else tuple(counts))

    def _quoted(self, state: State, rule: Rule) -> Drafted:
        """Return what followed the last token when it came before, or else the token 0."""
        ids: list[int] = []
        for _ in range(self.gamma(state)):
            text = (*state.text, *ids)
            places = [i for i in range(1, len(text)) if text[i - 1] == text[-1]]
            ids.append(text[places[-1]] if places else 0)
        return Drafted(tuple(ids), None if rule is Rule.MATCH else OneHot())


def _looked_up(text: Text, gamma: int) -> Drafted:
    index = SuffixAutomaton(1)
    index.extend(text)
    return Drafted(index.continuation(gamma).ids if gamma > 0 else (), OneHot())


def text_law(session: Session, horizon: int) -> dict[Text, float]:
    """Return the exact law of the first `horizon` committed tokens."""
    done: dict[Text, float] = defaultdict(float)
    frontier: dict[State, float] = {State(): 1.0}
    while frontier:
        following: dict[State, float] = defaultdict(float)
        for state, weight in frontier.items():
            for after, tape in runs(partial(session.step, state), partial(_tape, session, state)):
                if len(after.text) >= horizon:
                    done[after.text[:horizon]] += weight * tape.weight
                    continue
                known = tape.intervals.items()
                memory = frozenset(item for item in known if not _is_spent(session, after, item[0]))
                following[replace(after, memory=memory)] += weight * tape.weight
        frontier = following
    return done


def _tape(session: Session, state: State, script: Sequence[int]) -> Tape:
    alias = session.planted_alias or (lambda place: place)
    return Tape(script, dict(state.memory), spent=partial(_is_spent, session, state), alias=alias)


def _is_spent(session: Session, state: State, place: Place) -> bool:
    # What cannot be read again, by the words of its address, need not be remembered; the tape refuses to read it.
    key, address = place
    if address.position < session.forget(state):
        return True
    if key == KEYS.match or (session.planted_alias is not None and key in session.planted_alias.keys):
        return False
    if key == DRAFT_KEY:
        return address.round < state.round or address.digest != digest.extend(digest.EMPTY, state.text)
    return address.round < state.round or address.digest < len(state.text)


def distance(session: Session, horizon: int) -> float:
    """Return the total variation distance between the laws of the session's and of the target's first tokens."""
    law = text_law(session, horizon)
    texts = itertools.product(range(session.tables.vocabulary), repeat=horizon)
    return 0.5 * sum(abs(law.get(text, 0.0) - session.tables.probability(text)) for text in texts)
