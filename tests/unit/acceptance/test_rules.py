"""What holds for every rule: shapes, faults, plain steps, the default."""

import pytest

from foreword.acceptance import Evidence, Verdict, auto, decide, gather, plain
from foreword.acceptance.rules import rule_of
from foreword.addresses import Address
from foreword.addresses.philox import first_integers, uniforms
from foreword.errors import InvalidField, ProtocolFault
from foreword.laws.sampling import sample_match, sample_uniform
from foreword.protocol.words import Rule
from tests.unit.acceptance.blocks import KEYS, dense

P = dense(0.2, 0.3, 0.5)


def test_the_default_rule() -> None:
    assert auto(0.0, seeded=False, trusted=True) is Rule.MATCH
    assert auto(1.0, seeded=True, trusted=True) is Rule.MATCH
    assert auto(1.0, seeded=False, trusted=False) is Rule.MATCH
    assert auto(1.0, seeded=False, trusted=True) is Rule.BLOCK


@pytest.mark.parametrize("rule", Rule)
def test_every_rule_is_implemented(rule: Rule) -> None:
    assert type(rule_of(rule)).__name__.upper() == rule.name


def test_plain_steps() -> None:
    positions = range(20)
    own = [plain(Rule.MATCH, P, keys=KEYS, round=r, position=i) for i in positions for r in (1, 2)]
    assert own == [sample_match(P, KEYS.match, i) for i in positions for _ in (1, 2)]
    for rule in (Rule.TOKEN, Rule.BLOCK):
        u = uniforms(first_integers(KEYS.emit, [Address(i, 5, i) for i in positions]))
        expected = [sample_uniform(P, x) for x in u.tolist()]
        assert [plain(rule, P, keys=KEYS, round=5, position=i) for i in positions] == expected
        assert [plain(rule, P, keys=KEYS, round=6, position=i) for i in positions] != expected


@pytest.mark.parametrize("rule", Rule)
def test_an_empty_block_is_a_plain_step(rule: Rule) -> None:
    evidence = gather(rule, [P], (), (), keys=KEYS, round=3, base=8)
    token = plain(rule, P, keys=KEYS, round=3, position=8)
    assert evidence.acceptance == ()
    assert evidence.emit == (token,)
    assert decide(rule, evidence, coin_key=KEYS.coin, round=3, base=8) == Verdict(0, token)


@pytest.mark.parametrize("rule", Rule)
def test_laws_are_one_more_than_candidates(rule: Rule) -> None:
    with pytest.raises(InvalidField, match="laws: got '1 laws', wanted one more than the 1 candidates"):
        gather(rule, [P], (1,), None, keys=KEYS, round=1, base=0)


@pytest.mark.parametrize("rule", Rule)
@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        (Evidence((0.5,), (1,)), "emit: got 1 tokens, wanted 2"),
        (Evidence((1.5,), (1, 2)), r"acceptance\[0\]: got 1.5, wanted a number from 0 to 1"),
        (Evidence((float("nan"),), (1, 2)), r"acceptance\[0\]: got nan"),
        (Evidence((1.0,), (1, None)), r"emit\[1\]: got no token, wanted the one to emit after 1 kept"),
        (Evidence((0.0,), (None, 3)), r"emit\[0\]: got no token"),
    ],
)
def test_impossible_evidence_is_a_fault_of_the_target(rule: Rule, evidence: Evidence, message: str) -> None:
    with pytest.raises(ProtocolFault, match=message):
        decide(rule, evidence, coin_key=KEYS.coin, round=1, base=0)


def test_what_a_verdict_commits() -> None:
    assert Verdict(2, 9).committed((4, 5, 6)) == (4, 5, 9)
    assert Verdict(0, 9).committed(()) == (9,)
