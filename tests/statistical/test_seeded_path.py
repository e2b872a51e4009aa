"""Chi-square tests of the seeded path: derived keys, Philox, coins, residuals, drafts, round after round.

Enumeration proves the rules; this shows that real numbers reach them as they should. Seeds are fixed, so the tests are
deterministic; the gate is 1e-4 over all cases of a test (Bonferroni).
"""

import itertools
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

from foreword.acceptance import decide, gather, plain
from foreword.addresses import Purpose, derive_key, draft_address
from foreword.addresses.keys import Address
from foreword.addresses.philox import first_integers
from foreword.laws.counts import sample, to_counts
from foreword.laws.parameters import LawParameters
from foreword.laws.sampling import sample_match
from foreword.protocol import digest
from foreword.protocol.messages import OneHot, SparseCounts, TargetKeys
from foreword.protocol.words import Rule
from tests.statistical.enumeration import Style, Tables, Text

GATE = 1e-4
SALT = b"salt of the attempt"
CASES = [
    (Rule.MATCH, Style.COUPLED),
    (Rule.MATCH, Style.COUNTS),
    (Rule.TOKEN, Style.COUNTS),
    (Rule.TOKEN, Style.ONE_HOT),
    (Rule.BLOCK, Style.COUNTS),
]
every_case = pytest.mark.parametrize(("rule", "style"), CASES, ids=lambda case: case.name.lower())


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one seed."""

    target: TargetKeys
    draft: bytes

    @classmethod
    def of(cls, seed: int) -> "Keys":
        """Derive the keys as an orchestrator does."""
        emit, coin, draft = (derive_key(seed, 0, p, SALT) for p in (Purpose.EMIT, Purpose.COIN, Purpose.DRAFT))
        return cls(TargetKeys(derive_key(seed, 0, Purpose.MATCH), emit, coin), draft)


def generate(
    keys: Keys, rule: Rule, style: Style, *, tables: Tables, horizon: int, gamma: int = 2
) -> tuple[Text, tuple[int, ...]]:
    """Return at least `horizon` committed tokens, and how many candidates each round kept."""
    text: Text = ()
    kept: tuple[int, ...] = ()
    while len(text) < horizon:
        round, base = len(kept) + 1, len(text)
        ids, counts = draft(keys, text, rule, style, round=round, tables=tables, gamma=gamma)
        laws = [tables.target(text + ids[:i]) for i in range(len(ids) + 1)]
        law = OneHot() if style is Style.ONE_HOT else counts
        evidence = gather(rule, laws, ids, law, keys=keys.target, round=round, base=base)
        verdict = decide(rule, evidence, coin_key=keys.target.coin, round=round, base=base)
        text += verdict.committed(ids)
        kept += (verdict.kept,)
    return text, kept


def draft(
    keys: Keys, text: Text, rule: Rule, style: Style, *, round: int, tables: Tables, gamma: int
) -> tuple[Text, tuple[SparseCounts, ...]]:
    """Draw a block as a draft does."""
    ids: Text = ()
    counts: tuple[SparseCounts, ...] = ()
    assumed = digest.extend(digest.EMPTY, text)
    for position in range(len(text), len(text) + gamma):
        law = tables.draft(text + ids)
        rounded = to_counts(law, bits=8, mass=0.99)
        if style is Style.ONE_HOT:
            token = law.best
        elif style is Style.COUPLED:
            token = sample_match(law, keys.target.match, position)
        else:
            token = sample(rounded, int(first_integers(keys.draft, [draft_address(assumed, round, position)])[0]))
        ids, counts = (*ids, token), (*counts, rounded)
    return ids, counts


def p_value(texts: list[Text], tables: Tables, horizon: int) -> float:
    """Return the p-value of the joint law of the first tokens; cells with few expected are pooled."""
    cells = list(itertools.product(range(tables.vocabulary), repeat=horizon))
    expected = np.array([tables.probability(cell) for cell in cells]) * len(texts)
    counted = Counter(text[:horizon] for text in texts)
    seen = np.array([counted[cell] for cell in cells], dtype=np.float64)
    rare = expected < 5.0
    if rare.any():
        expected = np.append(expected[~rare], expected[rare].sum())
        seen = np.append(seen[~rare], seen[rare].sum())
    return float(stats.chisquare(seen[expected > 0], expected[expected > 0]).pvalue)


def texts_of(
    rule: Rule, style: Style, tables: Tables, *, horizon: int, sessions: int
) -> list[tuple[Text, tuple[int, ...]]]:
    """Generate one text for each seed."""
    return [generate(Keys.of(seed), rule, style, tables=tables, horizon=horizon) for seed in range(sessions)]


@every_case
def test_the_joint_law_of_the_text(rule: Rule, style: Style) -> None:
    tables = Tables(3, seed=5, parameters=LawParameters(temperature=1.2, top_p=0.97))
    texts = [text for text, _ in texts_of(rule, style, tables, horizon=4, sessions=1000)]
    assert p_value(texts, tables, 4) > GATE / len(CASES)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@every_case
def test_the_joint_law_of_the_text_to_the_third_digit(rule: Rule, style: Style) -> None:
    tables = Tables(4, seed=5)
    texts = [text for text, _ in texts_of(rule, style, tables, horizon=4, sessions=60_000)]
    assert p_value(texts, tables, 4) > GATE / len(CASES)


@pytest.mark.parametrize(("rule", "style"), CASES[::2], ids=lambda case: case.name.lower())
def test_what_was_kept_tells_nothing_of_the_next_token(rule: Rule, style: Style) -> None:
    # Under a memoryless target every token has the same law, so the second is independent of whether the first
    # candidate was kept.
    tables = Tables(3, seed=1, memoryless=True)
    table = np.zeros((2, 3))
    for text, kept in texts_of(rule, style, tables, horizon=2, sessions=1000):
        table[min(kept[0], 1), text[1]] += 1
    assert stats.chi2_contingency(table).pvalue > GATE / len(CASES)


@pytest.mark.parametrize("style", [Style.COUPLED, Style.COUNTS, Style.LIKELIEST])
def test_match_gives_the_text_of_plain_steps(style: Style) -> None:
    tables = Tables(5, seed=2, parameters=LawParameters(top_p=0.9, frequency_penalty=0.4))
    for seed in range(15):
        keys = Keys.of(seed)
        text: Text = ()
        while len(text) < 12:
            text += (plain(Rule.MATCH, tables.target(text), keys=keys.target, round=0, position=len(text)),)
        for gamma in (1, 3, 6):
            speculated, _ = generate(keys, Rule.MATCH, style, tables=tables, horizon=12, gamma=gamma)
            assert speculated[:12] == text


def test_a_coupled_draft_agrees_as_often_as_theory_says() -> None:
    # P(agree) = Σ_i 1 / Σ_j max(p_j/p_i, q_j/q_i) (arXiv 2408.07978).
    tables = Tables(6, seed=4, difference=1.0)
    p, q = tables.target(()), tables.draft(())
    ratios = [
        np.maximum(p.probabilities / a, q.probabilities / b)
        for a, b in zip(p.probabilities, q.probabilities, strict=True)
    ]
    expected = sum(1.0 / ratio.sum() for ratio in ratios)
    key = derive_key(1, 0, Purpose.MATCH)
    agreed = sum(sample_match(p, key, i) == sample_match(q, key, i) for i in range(8000))
    assert stats.binomtest(agreed, 8000, expected).pvalue > GATE
    assert expected >= (1 - distance(p.probabilities, q.probabilities)) / (
        1 + distance(p.probabilities, q.probabilities)
    )


def distance(p: np.ndarray, q: np.ndarray) -> float:
    """Return the total variation distance of two laws."""
    return 0.5 * float(np.abs(p - q).sum())


def test_a_shared_number_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    # Planted: draft and residual read the same number, as in vLLM before its fix (pull request 47386).
    monkeypatch.setattr(
        f"{__name__}.draft_address", lambda assumed, round, position: Address(position, round, position)
    )
    tables = Tables(3, seed=2, difference=1.5)
    texts = []
    for seed in range(2000):
        keys = Keys.of(seed)
        shared = Keys(keys.target, draft=keys.target.emit)
        texts.append(generate(shared, Rule.TOKEN, Style.COUNTS, tables=tables, horizon=2, gamma=1)[0])
    assert p_value(texts, tables, 2) < GATE
