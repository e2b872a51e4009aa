"""From requests to sessions: defaults, limits, rules, keys; every refusal names field, value and what is allowed."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest

from foreword.addresses.keys import Purpose, derive_key
from foreword.errors import InvalidField, NotFound
from foreword.laws.parameters import Grammar, LawParameters
from foreword.protocol.generation import Chat, GenerateRequest, Message, Speculation, TokenPrompt
from foreword.protocol.info import ServerInfo
from foreword.protocol.words import Drafter, FinishReason, Rule
from foreword.protocol.words import Rule as R
from orchestrator.front.checks import FrontLimits, chosen_gamma
from orchestrator.front.intake import Intake, Prepared
from orchestrator.policy import Gamma
from orchestrator.pools.drafts import DraftPeer, DraftPool, Trust
from orchestrator.pools.tickets import Tickets
from tests.unit.orchestrator.texts import WordText
from tests.unit.orchestrator.world import MODEL, VOCABULARY

SERVED = replace(MODEL, eos_ids=(49,))


def intake(trust: Trust | None = None, *, drafts: int = 1) -> Intake:
    numbers = itertools.count(1)

    def entropy(size: int) -> bytes:
        return next(numbers).to_bytes(size, "big")

    peers = [DraftPeer(f"draft{i}", Tickets(entropy), lambda _: None) for i in range(drafts)]
    pool = DraftPool(trust or Trust(), peers)
    return Intake(WordText(), SERVED, pool, limits=FrontLimits(), entropy=entropy)


def prepare(request: GenerateRequest, trust: Trust | None = None, *, drafts: int = 1) -> Prepared:
    return intake(trust, drafts=drafts).prepare(request, "id")


PROMPT = GenerateRequest("1 2 3")


@pytest.mark.parametrize("prompt", ["1 2 3", Chat((Message("user", "1 2 3"),)), TokenPrompt((1, 2, 3))])
def test_prompts_of_all_kinds_become_ids(prompt: object) -> None:
    prepared = prepare(GenerateRequest(prompt))  # type: ignore[arg-type]
    assert prepared.prompt == prepared.sessions[0].sequence.tokens == (1, 2, 3)


REFUSED = [
    (replace(PROMPT, prompt=""), "prompt"),
    (replace(PROMPT, prompt=TokenPrompt((1, VOCABULARY))), "prompt"),
    (replace(PROMPT, prompt=TokenPrompt((1,) * 512)), "prompt"),
    (replace(PROMPT, max_tokens=0), "max_tokens"),
    (replace(PROMPT, n=0), "n"),
    (replace(PROMPT, n=17), "n"),
    (replace(PROMPT, seed=-1), "seed"),
    (replace(PROMPT, n=2, resume=(1,)), "n"),
    (replace(PROMPT, resume=(VOCABULARY,)), "resume"),
    (replace(PROMPT, resume=(1, 2), max_tokens=1), "resume"),
    (replace(PROMPT, law=LawParameters(temperature=math.nan)), "temperature"),
    (replace(PROMPT, law=LawParameters(temperature=-1.0)), "temperature"),
    (replace(PROMPT, law=LawParameters(top_p=0.0)), "top_p"),
    (replace(PROMPT, law=LawParameters(stop_ids=(VOCABULARY,))), "stop_ids"),
    (replace(PROMPT, law=LawParameters(min_tokens=9), max_tokens=8), "law.min_tokens"),
    (replace(PROMPT, law=LawParameters(grammar=Grammar.regex("a")), ignore_eos=True), "law.stop_ids"),
    (replace(PROMPT, speculation=Speculation(gamma=17)), "speculation.gamma"),
    (replace(PROMPT, speculation=Speculation(gamma_min=3, gamma_max=2)), "speculation.gamma_min"),
    (replace(PROMPT, speculation=Speculation(gamma=1, gamma_min=2)), "speculation.gamma"),
    (replace(PROMPT, speculation=Speculation(rule=R.BLOCK)), "speculation.rule"),
    (replace(PROMPT, speculation=Speculation(rule=R.TOKEN)), "speculation.rule"),
]


@pytest.mark.parametrize(("request_", "field"), REFUSED)
def test_refusals_name_the_field(request_: GenerateRequest, field: str) -> None:
    with pytest.raises(InvalidField) as caught:
        prepare(request_)
    assert caught.value.field == field
    assert "wanted" in caught.value.message


def test_unknown_model_names_both() -> None:
    with pytest.raises(NotFound, match=r"'other'.*'m'"):
        prepare(replace(PROMPT, model="other"))
    prepare(replace(PROMPT, model="m"))


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (Speculation(draft="big"), "speculation.draft: got 'big', wanted one of those that are served: fast, small"),
        (
            Speculation(drafter=Drafter.SYNTHETIC),
            "speculation.drafter: got 'synthetic', wanted one of those that are served: lookup, model",
        ),
        (
            Speculation(draft="small", drafter=Drafter.SYNTHETIC),
            "speculation.drafter: got 'synthetic', wanted one of those that are served: lookup, model",
        ),
        (
            Speculation(draft="small", drafter=Drafter.LOOKUP),
            "speculation.draft: got 'small', wanted one of those that are served: fast",
        ),
    ],
)
def test_unknown_draft_is_not_found(wish: Speculation, message: str) -> None:
    made = intake(drafts=2)
    model, lookup = made._drafts.peers
    model.info = ServerInfo(replace(MODEL, name="small"), "", "", "", 1, 1, drafter=Drafter.MODEL)
    lookup.info = ServerInfo(None, "", "", "", 1, 1, drafter=Drafter.LOOKUP, name="fast")
    with pytest.raises(NotFound) as caught:
        made.prepare(replace(PROMPT, speculation=wish), "id")
    assert caught.value.message == message
    for name in ("small", "fast"):
        assert made.prepare(replace(PROMPT, speculation=Speculation(draft=name)), "id").wish.name == name


def test_drafts_without_a_name_are_said_to_have_none() -> None:
    made = intake()
    made._drafts.peers[0].info = ServerInfo(None, "", "", "", 1, 1, drafter=Drafter.LOOKUP)
    with pytest.raises(NotFound, match=r"draft: got 'fast', wanted one of those that are served: none has a name$"):
        made.prepare(replace(PROMPT, speculation=Speculation(draft="fast")), "id")


RULES = [
    (0.0, None, Trust(everyone=True), 1, Rule.MATCH),
    (1.0, 7, Trust(everyone=True), 1, Rule.MATCH),
    (1.0, 0, Trust(everyone=True), 1, Rule.MATCH),
    (1.0, None, Trust(everyone=True), 1, Rule.BLOCK),
    (1.0, None, Trust(sources=frozenset({"draft1"})), 2, Rule.BLOCK),
    (1.0, None, Trust(), 1, Rule.MATCH),
    (1.0, None, Trust(everyone=True), 0, Rule.MATCH),
]


@pytest.mark.parametrize(("temperature", "seed", "trust", "drafts", "rule"), RULES)
def test_auto_rule(temperature: float, seed: int | None, trust: Trust, drafts: int, rule: Rule) -> None:
    request = replace(PROMPT, law=LawParameters(temperature=temperature), seed=seed)
    prepared = prepare(request, trust, drafts=drafts)
    assert prepared.sessions[0].rule is rule
    assert prepared.wish.trusted is (rule is not Rule.MATCH)


def test_a_request_that_asks_for_block_and_a_seed_gets_it() -> None:
    request = replace(PROMPT, seed=1, speculation=Speculation(rule=Rule.BLOCK))
    assert prepare(request, Trust(everyone=True)).sessions[0].rule is Rule.BLOCK


def test_rules_that_trust_are_fine_without_drafts() -> None:
    request = replace(PROMPT, speculation=Speculation(gamma=0, rule=Rule.BLOCK))
    assert prepare(request).sessions[0].rule is Rule.BLOCK


def test_keys_match_belongs_to_seed_and_choice_others_to_the_attempt() -> None:
    made = intake(Trust(everyone=True))
    first = made.prepare(replace(PROMPT, seed=5, n=2), "a").sessions
    again = made.prepare(replace(PROMPT, seed=5, n=2), "b").sessions
    for choice in (0, 1):
        keys = first[choice].request
        assert keys.target_keys.match == derive_key(5, choice, Purpose.MATCH)
        assert keys.target_keys.match == again[choice].request.target_keys.match
        assert keys.target_keys.emit != again[choice].request.target_keys.emit
        assert keys.target_keys.coin != again[choice].request.target_keys.coin
        assert keys.draft_keys.draft != again[choice].request.draft_keys.draft
    assert len({s.request.target_keys.match for s in first}) == 2


@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
def test_a_seed_is_used_as_it_is_and_none_is_drawn(seed: int) -> None:
    prepared = prepare(replace(PROMPT, seed=seed))
    assert prepared.seed == seed
    assert prepared.sessions[0].request.target_keys.match == derive_key(seed, 0, Purpose.MATCH)
    made = intake()
    assert made.prepare(PROMPT, "a").seed != made.prepare(PROMPT, "b").seed


def test_a_draft_gets_the_match_key_under_match_only() -> None:
    made = intake(Trust(everyone=True))
    under_match = made.prepare(replace(PROMPT, seed=5), "a").sessions[0].request
    under_block = made.prepare(replace(PROMPT, law=LawParameters()), "a").sessions[0].request
    assert under_match.draft_keys.match == under_match.target_keys.match
    assert under_block.draft_keys.match is None


def test_end_of_text_stops_unless_it_is_ignored() -> None:
    assert prepare(PROMPT).sessions[0].request.law.stop_ids == (49,)
    assert prepare(replace(PROMPT, ignore_eos=True)).sessions[0].request.law.stop_ids == ()


def test_max_tokens_is_clipped_to_the_context_and_defaults() -> None:
    def most(request: GenerateRequest) -> int:
        return prepare(request).sessions[0].request.max_output

    assert most(replace(PROMPT, max_tokens=9999)) == 512 - 3
    assert most(PROMPT) == min(1024, 512 - 3)
    assert most(replace(PROMPT, max_tokens=7)) == 7


def test_resumed_output_goes_on_behind_the_prompt() -> None:
    prepared = prepare(replace(PROMPT, resume=(4, 5), max_tokens=10))
    session = prepared.sessions[0]
    assert (session.sequence.prompt_len, session.sequence.base) == (3, 2)
    assert session.request.max_output == 10
    assert prepared.sinks[0].first_position == 2
    assert prepared.over is None


@pytest.mark.parametrize(
    ("resume", "reason"),
    [((4, 49), FinishReason.STOP), ((4, 5, 6, 7), FinishReason.LENGTH), ((49,), FinishReason.STOP)],
)
def test_resumed_output_that_was_complete_is_over(resume: tuple[int, ...], reason: FinishReason) -> None:
    prepared = prepare(replace(PROMPT, resume=resume, max_tokens=4))
    assert prepared.over is not None
    assert prepared.over.reason is reason


@pytest.mark.parametrize(
    ("speculation", "gamma"),
    [
        (Speculation(), Gamma()),
        (Speculation(gamma=0), Gamma(fixed=0)),
        (Speculation(gamma=16), Gamma(fixed=16)),
        (Speculation(gamma_max=2), Gamma(most=2)),
        (Speculation(gamma_min=6), Gamma(least=6)),
        (Speculation(gamma_min=2, gamma_max=5), Gamma(least=2, most=5)),
    ],
)
def test_gamma_is_the_requests_or_measured_within_its_bounds(speculation: Speculation, gamma: Gamma) -> None:
    assert prepare(replace(PROMPT, speculation=speculation)).gamma == gamma


@pytest.mark.parametrize(
    ("speculation", "gamma"),
    [
        (Speculation(), 4),
        (Speculation(gamma=7), 7),
        (Speculation(gamma_max=2), 2),
        (Speculation(gamma_min=6), 6),
    ],
)
def test_a_server_with_a_number_of_its_own_keeps_to_it(speculation: Speculation, gamma: int) -> None:
    request = replace(PROMPT, speculation=speculation)
    assert chosen_gamma(request, FrontLimits(gamma=4)).fixed == gamma


@pytest.mark.parametrize("speculation", [Speculation(gamma=1), Speculation(gamma_max=2), Speculation(gamma=0)])
def test_a_request_may_ask_for_less_than_the_servers_least(speculation: Speculation) -> None:
    chosen = chosen_gamma(replace(PROMPT, speculation=speculation), FrontLimits(gamma_min=3))
    assert chosen.fixed == speculation.gamma
    assert chosen.least <= chosen.most


def test_cache_salts_go_to_the_target_as_they_are() -> None:
    for salt in (b"", b"a", b"a" * 64):
        assert prepare(replace(PROMPT, cache_salt=salt)).sessions[0].request.cache_salt == salt


def test_long_cache_salts_are_shortened_not_refused() -> None:
    salts = {
        prepare(replace(PROMPT, cache_salt=salt)).sessions[0].request.cache_salt for salt in (b"a" * 65, b"a" * 66)
    }
    assert len(salts) == 2
    assert all(len(salt) == 32 for salt in salts)


def test_choices_share_the_automaton_of_the_stop_texts() -> None:
    first, *others = prepare(replace(PROMPT, stop=("ab", "b"), n=3)).sinks
    assert len(others) == 2
    assert all(sink.stop is first.stop for sink in others)
