"""The rules behind one interface: gather evidence, decide, take a plain step, choose a rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from foreword.acceptance.block import Block
from foreword.acceptance.evidence import Evidence, Verdict
from foreword.acceptance.match import Match
from foreword.acceptance.source import PhiloxSource, Source
from foreword.acceptance.token import Token
from foreword.addresses.keys import Address, verification_address
from foreword.errors import InvalidField, ProtocolFault
from foreword.laws.law import TargetLaw
from foreword.protocol.messages import BlockLaw, TargetKeys
from foreword.protocol.words import Rule


class AcceptanceRule(Protocol):
    """How evidence is made of laws, and a number of kept candidates of evidence."""

    def evidence(
        self,
        laws: Sequence[TargetLaw],
        ids: Sequence[int],
        block_law: BlockLaw | None,
        *,
        source: Source,
        keys: TargetKeys,
        round: int,
        base: int,
    ) -> Evidence:
        """Return the evidence about candidates `ids`, given the γ + 1 target laws."""
        ...

    def kept(self, acceptance: Sequence[float], *, source: Source, coin_key: bytes, round: int, base: int) -> int:
        """Return how many candidates to keep."""
        ...


_PHILOX = PhiloxSource()


def rule_of(rule: Rule) -> AcceptanceRule:
    """Return the implementation of a rule."""
    match rule:
        case Rule.MATCH:
            return Match()
        case Rule.TOKEN:
            return Token()
        case Rule.BLOCK:
            return Block()


def gather(
    rule: Rule,
    laws: Sequence[TargetLaw],
    ids: Sequence[int],
    block_law: BlockLaw | None,
    *,
    keys: TargetKeys,
    round: int,
    base: int,
    source: Source = _PHILOX,
) -> Evidence:
    """Return the target's evidence about a block of γ candidates at output position `base`.

    `laws` are the γ + 1 target laws: law i is the one after `ids[:i]`. `block_law` is what the candidates were drawn
    from, ignored under `match`. Raises InvalidField if a candidate cannot have been drawn from its law.
    """
    if len(laws) != len(ids) + 1:
        raise InvalidField("laws", f"{len(laws)} laws", f"one more than the {len(ids)} candidates")
    return rule_of(rule).evidence(laws, ids, block_law, source=source, keys=keys, round=round, base=base)


def decide(
    rule: Rule, evidence: Evidence, *, coin_key: bytes, round: int, base: int, source: Source = _PHILOX
) -> Verdict:
    """Return the verdict on a block: how many candidates to keep, and the token that follows.

    A pure function of evidence and addressed coins: the target and the orchestrator come to the same. Raises
    ProtocolFault for evidence that no honest target sends.
    """
    acceptance = evidence.validate().acceptance
    kept = rule_of(rule).kept(acceptance, source=source, coin_key=coin_key, round=round, base=base)
    emitted = evidence.emit[kept]
    if emitted is None:
        raise ProtocolFault(f"evidence.emit[{kept}]: got no token, wanted the one to emit after {kept} kept candidates")
    return Verdict(kept, emitted)


def plain(rule: Rule, law: TargetLaw, *, keys: TargetKeys, round: int, position: int, source: Source = _PHILOX) -> int:
    """Return the token of a plain step at an output position."""
    if rule is Rule.MATCH:
        return next(iter(source.race(keys.match, [(Address(position), law)])))
    return source.choose(keys.emit, [(verification_address(round, position, 0), law)])[0]


def auto(temperature: float, *, seeded: bool, trusted: bool) -> Rule:
    """Return the default rule of a session.

    `match` at temperature 0 and with a seed, whose text then is a function of seed, prompt and target; else `block` if
    the draft is trusted to be honest about its laws.
    """
    if temperature == 0.0 or seeded or not trusted:
        return Rule.MATCH
    return Rule.BLOCK
