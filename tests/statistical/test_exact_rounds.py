"""The committed text has exactly the target's law, whatever draft, network and controller do."""

import pytest

from foreword.laws.law import Law
from foreword.laws.parameters import LawParameters
from foreword.protocol.words import Rule
from tests.statistical.enumeration import Outcome, Session, State, Style, Tables, distance

EXACT = 1e-12
PAIRS = [
    pytest.param(Rule.MATCH, Style.COUPLED, id="match, coupled draft"),
    pytest.param(Rule.MATCH, Style.COUNTS, id="match, sampled draft"),
    pytest.param(Rule.MATCH, Style.LIKELIEST, id="match, likeliest draft"),
    pytest.param(Rule.TOKEN, Style.COUNTS, id="token"),
    pytest.param(Rule.TOKEN, Style.ONE_HOT, id="token, one-hot draft"),
    pytest.param(Rule.BLOCK, Style.COUNTS, id="block"),
    pytest.param(Rule.BLOCK, Style.ONE_HOT, id="block, one-hot draft"),
]
every_rule = pytest.mark.parametrize(("rule", "style"), PAIRS)


def up_to(gamma: int, horizon: int):  # type: ignore[no-untyped-def]
    """Return a γ that is clipped to what the text has room for."""
    return lambda state: min(gamma, horizon - len(state.text) - 1)


@every_rule
@pytest.mark.parametrize(("vocabulary", "gamma", "horizon"), [(3, 1, 5), (3, 3, 5), (4, 2, 4), (2, 3, 6)])
def test_fixed_gamma(rule: Rule, style: Style, vocabulary: int, gamma: int, horizon: int) -> None:
    session = Session(lambda _: rule, style, Tables(vocabulary, seed=gamma), gamma=up_to(gamma, horizon))
    assert distance(session, horizon) < EXACT


@every_rule
def test_blocks_that_run_over_the_horizon(rule: Rule, style: Style) -> None:
    assert distance(Session(lambda _: rule, style, gamma=lambda _: 3), 2) < EXACT


@every_rule
@pytest.mark.parametrize(
    "parameters",
    [
        LawParameters(top_p=0.8),
        LawParameters(top_k=2, temperature=0.6),
        LawParameters(min_p=0.4),
        LawParameters(repetition_penalty=1.5, frequency_penalty=0.7),
        LawParameters(stop_ids=(1,), min_tokens=2, bias=((1, 1.0),)),
        LawParameters(temperature=0.0),
    ],
    ids=["top-p", "top-k", "min-p", "penalties", "minimum length", "temperature 0"],
)
def test_truncated_and_penalized_targets(rule: Rule, style: Style, parameters: LawParameters) -> None:
    session = Session(lambda _: rule, style, Tables(3, parameters=parameters), gamma=up_to(2, 4))
    assert distance(session, 4) < EXACT


@every_rule
@pytest.mark.parametrize("bits", [2, 3])
def test_coarse_counts(rule: Rule, style: Style, bits: int) -> None:
    assert distance(Session(lambda _: rule, style, bits=bits, gamma=up_to(2, 4)), 4) < EXACT


def everything(outcome: Outcome) -> int:
    """Fold all that was seen of a block into 0, 1 or 2: candidates, h, kept, and emits that were never used."""
    return (sum(outcome.ids) + outcome.kept + sum(outcome.emits) + int(8 * sum(outcome.acceptance))) % 3


@every_rule
def test_gamma_adapts_to_everything_seen(rule: Rule, style: Style) -> None:
    def gamma(state: State) -> int:
        return min((1, 3, 0)[state.seen] + (state.text[-1:] == (1,)), 4 - len(state.text))

    session = Session(lambda _: rule, style, gamma=gamma, note=everything, look=True)
    assert distance(session, 5) < EXACT


@every_rule
def test_the_draft_stops_early_behind_what_it_sends(rule: Rule, style: Style) -> None:
    def stop(law: Law, token: int) -> bool:
        return law.probability_of(token) < 0.45 or token == 2

    assert distance(Session(lambda _: rule, style, gamma=up_to(3, 5), stop=stop), 5) < EXACT


@every_rule
def test_constant_lateness(rule: Rule, style: Style) -> None:
    assert distance(Session(lambda _: rule, style, gamma=up_to(2, 4), late=lambda _: 0.3), 4) < EXACT


@every_rule
def test_lateness_that_depends_on_the_past(rule: Rule, style: Style) -> None:
    def late(state: State) -> float:
        return (0.1, 0.8, 0.4)[state.seen] if state.text[-1:] != (0,) else 1.0

    session = Session(lambda _: rule, style, gamma=up_to(2, 4), late=late, note=everything, look=True)
    assert distance(session, 4) < EXACT


@every_rule
def test_a_lost_result_whose_verdict_was_seen(rule: Rule, style: Style) -> None:
    session = Session(
        lambda _: rule,
        style,
        gamma=lambda state: min((2, 0, 1)[state.seen], 3 - len(state.text)),
        lost=lambda state: 0.6 if state.blocks < 2 else 0.0,
        note=everything,
        look=True,
    )
    assert distance(session, 4) < EXACT


@every_rule
@pytest.mark.parametrize("lease", [2, 9])
def test_many_blocks_in_one_round(rule: Rule, style: Style, lease: int) -> None:
    assert distance(Session(lambda _: rule, style, gamma=up_to(3, 5), lease=lease), 5) < EXACT


@pytest.mark.parametrize("style", [Style.COUPLED, Style.COUNTS])
def test_the_rule_changes_with_what_was_committed(style: Style) -> None:
    session = Session(lambda state: tuple(Rule)[state.seen], style, gamma=up_to(2, 5), note=lambda o: o.kept)
    assert distance(session, 5) < EXACT


@every_rule
def test_a_draft_of_two_parts_that_chooses_by_everything_seen(rule: Rule, style: Style) -> None:
    """The mixed drafter: for each block lookup or the model, by how blocks did and what the text is."""

    def quotes(state: State) -> bool:
        return state.seen == 1 or state.text[-1:] == (0,)

    session = Session(lambda _: rule, style, gamma=up_to(2, 5), quotes=quotes, note=everything, look=True)
    assert distance(session, 5) < EXACT


@pytest.mark.parametrize("rule", [Rule.TOKEN, Rule.BLOCK])
def test_a_part_that_is_chosen_by_what_was_drawn_is_noticed(rule: Rule) -> None:
    """The planted bug: the model's block is thrown away for lookup's where its first candidate was unlikely."""

    def quotes(law: Law, token: int) -> bool:
        return law.probability_of(token) < 0.4

    assert distance(Session(lambda _: rule, gamma=up_to(2, 4), planted_quotes=quotes), 4) > 0.01


def test_match_forgives_a_draft_that_discards_lies_and_dawdles() -> None:
    session = Session(
        lambda _: Rule.MATCH,
        Style.COUNTS,
        gamma=up_to(3, 4),
        planted_drop=lambda law, token: law.probability_of(token) < 0.4,
        planted_rounding=True,
        planted_late=lambda ids: ids[:1] == (1,),
    )
    assert distance(session, 4) < EXACT
