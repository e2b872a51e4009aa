"""Shortcuts of other servers that look harmless, planted one by one: the enumeration must see each."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from foreword.acceptance import Evidence, decide, gather
from foreword.protocol.words import Rule
from tests.statistical import enumeration
from tests.statistical.enumeration import KEYS, Outcome, Session, State, Tables, distance
from tests.statistical.tape import Tape
from tests.statistical.test_exact_rounds import EXACT, up_to
from tests.statistical.test_planted_bugs import SEEN, honest, trusting


@trusting
def test_a_first_candidate_that_is_never_checked(rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first candidate of a block is kept unseen, as if it were a token of the target."""

    def lenient(*args: object, **kwargs: object) -> Evidence:
        evidence = gather(*args, **kwargs)  # type: ignore[arg-type]
        return replace(evidence, acceptance=(1.0, *evidence.acceptance[1:])) if evidence.acceptance else evidence

    # One candidate a block: of longer ones, block verification has no token for a prefix that it can never keep.
    session = honest(rule, gamma=1)
    assert distance(session, 4) < EXACT
    monkeypatch.setattr(enumeration, "gather", lenient)
    assert distance(session, 4) > SEEN
    # A draft that is the target itself does not show it.
    assert distance(replace(session, tables=Tables(difference=0.0), bits=16), 4) < SEEN


@dataclass(frozen=True, slots=True)
class LongestOfTwo(Session):
    """Planted: two blocks, each drawn and judged by the rule on its own, and the one of which more is kept wins."""

    def step(self, state: State, tape: Tape) -> State:
        """Run one block."""
        rule, base = self.rule(state), len(state.text)
        tries = []
        for branch in (b"1", b"2"):
            block = self._branch(state, tape, rule, branch)
            keys = replace(KEYS, coin=KEYS.coin[1:] + branch, emit=KEYS.emit[1:] + branch)
            laws = [self.tables.target(state.text + block.ids[:i]) for i in range(len(block.ids) + 1)]
            evidence = gather(rule, laws, block.ids, block.law, keys=keys, round=state.round, base=base, source=tape)
            verdict = decide(rule, evidence, coin_key=keys.coin, round=state.round, base=base, source=tape)
            tries.append((verdict.kept, block.ids, verdict))
        kept, ids, verdict = max(tries, key=lambda found: found[0])
        return self._after(state, (*ids[:kept], tape.settle(verdict.emitted)), Outcome(ids, kept, ()))

    def _branch(self, state: State, tape: Tape, rule: Rule, branch: bytes) -> enumeration.Drafted:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(enumeration, "DRAFT_KEY", enumeration.DRAFT_KEY[1:] + branch)
            return self._draft(state, tape, rule, len(state.text))


@trusting
def test_the_branch_of_which_most_is_kept(rule: Rule) -> None:
    """Several blocks a round of which the luckiest is taken: one draft a round, or a rule made for trees."""
    session = LongestOfTwo(lambda _: rule, gamma=up_to(1, 3))
    assert distance(session, 2) > SEEN
