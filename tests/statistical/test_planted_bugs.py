"""Bugs that others shipped, planted one by one: the enumeration must see each."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from foreword.acceptance import block, match
from foreword.acceptance.drafted import residual
from foreword.acceptance.evidence import Evidence
from foreword.acceptance.token import Token
from foreword.addresses import Address
from foreword.addresses.keys import verification_address
from foreword.errors import ProtocolFault
from foreword.laws.law import Law
from foreword.protocol.messages import BlockLaw, TargetKeys
from foreword.protocol.words import Rule
from tests.statistical.enumeration import DRAFT_KEY, KEYS, Alias, Session, State, Style, Tables, distance
from tests.statistical.test_exact_rounds import EXACT, everything, up_to

SEEN = 1e-3
"""Every planted bug below shows a distance of at least this; the honest sessions stay under 1e-12."""
trusting = pytest.mark.parametrize("rule", [Rule.TOKEN, Rule.BLOCK])


def honest(rule: Rule, *, horizon: int = 5, gamma: int = 2) -> Session:
    """Return the session that bugs are planted into."""
    return Session(lambda _: rule, gamma=up_to(gamma, horizon))


def by_position(*keys: bytes) -> Alias:
    """Return an alias that leaves everything but the position out of the addresses under some keys."""
    return Alias(keys, lambda place: (place[0], Address(place[1].position)))


def one_number(*keys: bytes) -> Alias:
    """Return an alias by which some purposes share the number at a position of a round."""
    return Alias(keys, lambda place: (keys[0], Address(place[1].position, place[1].round)))


@pytest.mark.parametrize("rule", Rule)
def test_an_alias_that_changes_nothing(rule: Rule) -> None:
    everywhere = Alias((KEYS.coin, KEYS.emit, DRAFT_KEY), lambda place: place)
    assert distance(replace(honest(rule), planted_alias=everywhere), 4) < EXACT


@trusting
def test_the_round_left_out_of_the_address_of_coins(rule: Rule) -> None:
    found = distance(replace(honest(rule, gamma=3), planted_alias=by_position(KEYS.coin)), 5)
    # Under `token` no coin behind the first failure is looked at, so overlapping blocks share none that counts.
    assert (found > SEEN) if rule is Rule.BLOCK else (found < EXACT)


@trusting
def test_the_round_left_out_of_the_address_of_the_draft(rule: Rule) -> None:
    # Under `token` what stands behind the first failure counts only through a controller that looks at it.
    session = replace(
        honest(rule),
        gamma=lambda state: min((2, 0, 1)[state.seen], 3 - len(state.text)),
        note=lambda outcome: sum(outcome.ids[outcome.kept + 1 :]) % 3,
    )
    assert distance(session, 4) < EXACT
    assert distance(replace(session, planted_alias=by_position(DRAFT_KEY)), 4) > SEEN


@trusting
def test_the_round_left_out_when_a_result_is_lost(rule: Rule) -> None:
    session = replace(
        honest(rule),
        gamma=lambda state: min((2, 0, 1)[state.seen], 3 - len(state.text)),
        lost=lambda state: 0.6 if state.blocks == 0 else 0.0,
        note=everything,
    )
    assert distance(session, 4) < EXACT
    without_round = Alias((KEYS.coin, KEYS.emit), lambda place: (place[0], replace(place[1], round=0)))
    assert distance(replace(session, planted_alias=without_round), 4) > SEEN


def test_the_base_left_out_when_one_round_verifies_many_blocks() -> None:
    session = replace(honest(Rule.BLOCK, gamma=3), tables=Tables(2), lease=9)
    assert distance(session, 5) < EXACT
    without_base = Alias((KEYS.coin, KEYS.emit), lambda place: (place[0], replace(place[1], digest=0)))
    assert distance(replace(session, planted_alias=without_base), 5) > SEEN


@trusting
@pytest.mark.parametrize(
    "purposes",
    [(KEYS.coin, KEYS.emit), (DRAFT_KEY, KEYS.coin), (DRAFT_KEY, KEYS.emit)],
    ids=["coin and residual", "draft and coin", "draft and residual"],
)
def test_one_number_for_two_purposes(rule: Rule, purposes: tuple[bytes, bytes]) -> None:
    assert distance(replace(honest(rule), planted_alias=one_number(*purposes)), 4) > SEEN


def test_block_with_the_joint_ratio_as_h(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block, "_success", lambda joint, mass: joint)
    assert distance(honest(Rule.BLOCK), 4) > SEEN


def test_block_with_the_residual_of_token(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_joint(p: Law, q: Law, scale: float) -> tuple[Law, float]:
        return residual(p, q, 1.0)[0], residual(p, q, scale)[1]

    monkeypatch.setattr(block, "residual", without_joint)
    session = honest(Rule.BLOCK, gamma=3)
    assert distance(session, 5) > SEEN
    # The law of the first token alone would not show it.
    assert distance(session, 1) < EXACT


def test_block_that_stops_at_the_first_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block.Block, "kept", Token.kept)
    # Evidence has no token for a number that block verification cannot keep.
    with pytest.raises(ProtocolFault, match="got no token"):
        distance(honest(Rule.BLOCK), 4)


@trusting
def test_a_candidate_dropped_for_its_own_value(rule: Rule) -> None:
    dropping = replace(honest(rule), planted_drop=lambda law, token: law.probability_of(token) < 0.4)
    assert distance(dropping, 4) > SEEN
    # Even a draft that is the target itself is then biased.
    assert distance(replace(dropping, tables=Tables(difference=0.0)), 4) > SEEN


@trusting
def test_a_law_rounded_after_the_draw(rule: Rule) -> None:
    assert distance(replace(honest(rule), bits=2, planted_rounding=True), 4) > SEEN


@trusting
def test_lateness_that_depends_on_the_block(rule: Rule) -> None:
    session = replace(honest(rule), planted_late=lambda ids: ids[:1] == (0,))
    assert distance(session, 4) > SEEN
    f = session.tables.draft(()).probability_of(0)
    assert distance(session, 1) <= 2 * f * (1 - f)


def test_a_fresh_sample_behind_a_mismatch(monkeypatch: pytest.MonkeyPatch) -> None:
    original = match.Match.evidence

    def fresh(
        self: match.Match,
        laws: Sequence[Law],
        ids: Sequence[int],
        block_law: BlockLaw | None,
        *,
        source,  # type: ignore[no-untyped-def]
        keys: TargetKeys,
        round: int,
        base: int,
    ) -> Evidence:
        evidence = original(self, laws, ids, block_law, source=source, keys=keys, round=round, base=base)
        kept = int(sum(evidence.acceptance))
        (again,) = source.choose(keys.emit, [(verification_address(round, base, kept), laws[kept])])
        return replace(evidence, emit=(*evidence.emit[:kept], again, *evidence.emit[kept + 1 :]))

    monkeypatch.setattr(match.Match, "evidence", fresh)
    assert distance(honest(Rule.MATCH), 3) > SEEN


def test_positions_that_restart_when_a_session_is_opened_again() -> None:
    def restarting(state: State) -> int:
        return len(state.text) - 2 if len(state.text) >= 2 else len(state.text)

    session = replace(honest(Rule.MATCH), planted_position=restarting, forget=lambda state: 0)
    assert distance(session, 4) > 0.05


def test_a_rule_chosen_by_refused_coupled_candidates() -> None:
    # Refused candidates of a coupled draft tell about numbers that the target's own samples have yet to use. γ may
    # depend on them, since under `match` the text does not depend on γ; leaving `match` may not.
    session = Session(
        lambda state: Rule.TOKEN if state.seen else Rule.MATCH,
        Style.COUPLED,
        gamma=up_to(2, 4),
        note=lambda outcome: int(outcome.ids[outcome.kept + 1 :][:1] == (0,)),
    )
    assert distance(session, 4) > SEEN
