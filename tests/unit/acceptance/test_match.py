"""`match`: the target's own samples."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreword.acceptance import Evidence, Verdict, decide, gather, plain
from foreword.laws.law import Law
from foreword.laws.sampling import sample_match
from foreword.protocol.messages import OneHot
from foreword.protocol.words import Rule
from tests.unit.acceptance.blocks import KEYS, dense, sparse


@pytest.mark.parametrize(
    ("ids", "acceptance", "emit"),
    [
        ((4, 5, 6), (1.0, 1.0, 1.0), (None, None, None, 7)),
        ((4, 5, 9), (1.0, 1.0, 0.0), (None, None, 6, None)),
        ((9, 5, 6), (0.0, 0.0, 0.0), (4, None, None, None)),
        ((4, 9, 6), (1.0, 0.0, 0.0), (None, 5, None, None)),
    ],
)
def test_one_hot_laws(ids: tuple[int, ...], acceptance: tuple[float, ...], emit: tuple[int | None, ...]) -> None:
    laws = [Law.one_hot(token) for token in (4, 5, 6, 7)]
    evidence = gather(Rule.MATCH, laws, ids, None, keys=KEYS, round=1, base=0)
    assert evidence.acceptance == acceptance
    kept = int(sum(acceptance))
    assert [token for n, token in enumerate(evidence.emit) if n >= kept] == list(emit[kept:])
    assert evidence.ratios is None
    assert decide(Rule.MATCH, evidence, coin_key=KEYS.coin, round=1, base=0) == Verdict(kept, emit[kept])


LAWS = [dense(0.2, 0.5, 0.3), sparse({0: 0.4, 2: 0.6}), dense(0.1, 0.1, 0.8)]
candidates = st.lists(st.integers(0, 2), max_size=6)


@settings(derandomize=True, deadline=None)
@given(candidates, st.integers(0, 50), st.integers(1, 9), st.binary(min_size=16, max_size=16))
def test_the_text_is_that_of_plain_steps_whatever_the_candidates(
    ids: list[int], base: int, round: int, key: bytes
) -> None:
    keys = type(KEYS)(match=key, emit=KEYS.emit, coin=KEYS.coin)
    laws = [LAWS[i % 3] for i in range(len(ids) + 1)]
    evidence = gather(Rule.MATCH, laws, ids, OneHot(), keys=keys, round=round, base=base)
    verdict = decide(Rule.MATCH, evidence, coin_key=KEYS.coin, round=round, base=base)
    committed = verdict.committed(ids)
    own = [plain(Rule.MATCH, law, keys=keys, round=99, position=base + i) for i, law in enumerate(laws)]
    assert list(committed) == own[: len(committed)]
    assert own == [sample_match(law, key, base + i) for i, law in enumerate(laws)]
    assert verdict.kept == len(ids) or ids[verdict.kept] != own[verdict.kept]
    assert evidence.emit == (*committed, *[None] * (len(ids) - verdict.kept))


def test_nothing_behind_a_mismatch_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    # Large laws cost something, and what has no meaning must not be sent.
    made = []
    monkeypatch.setattr(
        "foreword.addresses.philox.integers",
        lambda key, address, count: made.append(address.position) or __import__("numpy").arange(count, dtype="u8"),
    )
    size = 1000
    laws = [dense(*[1 / size] * size)] * 4
    first = gather(Rule.MATCH, laws, (0, 0, 0), None, keys=KEYS, round=1, base=5).emit[0]
    made.clear()
    gather(Rule.MATCH, laws, (first, 0 if first else 1, first), None, keys=KEYS, round=1, base=5)
    assert made == [5, 6]


def test_an_empty_block_is_a_plain_step() -> None:
    evidence = gather(Rule.MATCH, LAWS[:1], (), None, keys=KEYS, round=1, base=3)
    assert evidence == Evidence((), (plain(Rule.MATCH, LAWS[0], keys=KEYS, round=1, position=3),))
