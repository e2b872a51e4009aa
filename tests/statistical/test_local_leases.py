"""A lease in which the target verifies what it looks up: many blocks and plain steps in one round, and exact."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from foreword.addresses import Address
from foreword.laws.parameters import LawParameters
from foreword.protocol.words import Rule
from tests.statistical.enumeration import KEYS, Alias, Outcome, Session, State, Style, Tables, distance
from tests.statistical.tape import Place
from tests.statistical.test_exact_rounds import EXACT, everything, up_to

SEEN = 1e-3
every_rule = pytest.mark.parametrize("rule", Rule)
trusting = pytest.mark.parametrize("rule", [Rule.TOKEN, Rule.BLOCK])


def leasing(rule: Rule, *, lease: int = 9, horizon: int = 6) -> Session:
    """Return a session whose target looks up: all blocks of a text in one round, up to nine in a lease."""
    return Session(lambda _: rule, Style.LOOKUP, Tables(2, seed=3), gamma=up_to(3, horizon), lease=lease)


@every_rule
@pytest.mark.parametrize("lease", [1, 2, 9])
def test_leases_of_any_length(rule: Rule, lease: int) -> None:
    assert distance(leasing(rule, lease=lease), 6) < EXACT


@every_rule
@pytest.mark.parametrize(
    "parameters",
    [LawParameters(top_p=0.8), LawParameters(frequency_penalty=0.7), LawParameters(temperature=0.0)],
    ids=["top-p", "penalty", "temperature 0"],
)
def test_laws_that_are_edited(rule: Rule, parameters: LawParameters) -> None:
    session = replace(leasing(rule, horizon=5), tables=Tables(3, seed=1, parameters=parameters))
    assert distance(session, 5) < EXACT


@every_rule
def test_a_number_of_candidates_that_follows_all_that_was_seen(rule: Rule) -> None:
    session = replace(
        leasing(rule, horizon=5),
        gamma=lambda state: min((1, 3, 0)[state.seen], 4 - len(state.text)),
        note=everything,
        look=True,
    )
    assert distance(session, 5) < EXACT


def test_the_candidates_are_kept_and_refused() -> None:
    kept: set[tuple[int, int]] = set()

    def note(outcome: Outcome) -> int:
        kept.add((outcome.kept, len(outcome.ids)))
        return 0

    distance(replace(leasing(Rule.BLOCK), note=note), 6)
    assert {(0, 0), (0, 3), (1, 3), (3, 3)} <= kept


def planted(rule: Rule, instead: Callable[[Place], Place]) -> float:
    """Return the distance of a lease whose coins and residuals are read elsewhere."""
    session = replace(leasing(rule), planted_alias=Alias((KEYS.coin, KEYS.emit), instead), forget=_nothing)
    return distance(session, 6)


def _nothing(_: State) -> int:
    return 0


@trusting
def test_a_base_that_stands_still_reads_addresses_twice(rule: Rule) -> None:
    """Planted: every block of a lease is judged at the base of its Commit, which here is 0."""

    def at_the_commit(place: Place) -> Place:
        key, address = place
        return key, Address(address.position - address.digest, address.round, 0)

    assert planted(rule, at_the_commit) > SEEN


def test_a_base_left_out_reads_addresses_twice_where_blocks_overlap() -> None:
    assert planted(Rule.BLOCK, lambda place: (place[0], replace(place[1], digest=0))) > SEEN
