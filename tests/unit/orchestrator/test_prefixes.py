"""Routing by beginnings: what is remembered, for whom, how much of it, and when load wins."""

from __future__ import annotations

import itertools
import random

import pytest

from foreword.protocol.messages import LoadReport
from orchestrator.pools.prefixes import BLOCK, Beginnings, PrefixMemory, places
from orchestrator.pools.targets import MOST_SESSIONS, TOKENS_PER_SESSION, TargetPeer, TargetPool
from tests.unit.orchestrator.test_pools import NOBODY, Line, info, tickets

SYSTEM = tuple(range(1_000, 1_000 + 4 * BLOCK))
LONG = tuple(range(8 * TOKENS_PER_SESSION))


def text(seed: int, length: int) -> tuple[int, ...]:
    return tuple(random.Random(seed).choices(range(50_000), k=length))


def matched(memory: PrefixMemory, tokens: tuple[int, ...], salt: bytes = b"", instance: str = "a") -> int:
    return memory.matched(instance, Beginnings(salt).of(tokens))


def test_beginnings_end_at_places_that_are_the_same_for_all_texts() -> None:
    first = list(itertools.islice(places(), 120))
    assert first[:4] == [BLOCK, 2 * BLOCK, 3 * BLOCK, 4 * BLOCK]
    assert all(place % BLOCK == 0 for place in first)
    assert all(0 < after - before <= max(BLOCK, before // 16) for before, after in itertools.pairwise(first))
    assert sum(place <= 131_072 for place in first) < 110


def test_the_longest_beginning_counts_whatever_follows_it() -> None:
    memory = PrefixMemory()
    memory.sent("a", Beginnings().of(SYSTEM + text(1, 300)))
    assert matched(memory, SYSTEM + text(2, 300)) == len(SYSTEM)
    assert matched(memory, SYSTEM + text(1, 300)) == len(SYSTEM) + 256
    assert matched(memory, SYSTEM[:-1]) == len(SYSTEM) - BLOCK
    assert matched(memory, (7, *SYSTEM)) == 0
    assert matched(memory, SYSTEM[: BLOCK - 1]) == 0
    assert matched(memory, SYSTEM, instance="b") == 0


@pytest.mark.parametrize("seed", range(20))
def test_matches_are_those_of_a_plain_comparison(seed: int) -> None:
    drawn = random.Random(seed)
    known, asked = (tuple(drawn.choices((1, 2), k=3)) * 200 for _ in range(2))
    cut = drawn.randrange(600)
    asked = known[:cut] + asked[cut:]
    memory = PrefixMemory()
    memory.sent("a", Beginnings().of(known))
    common = next((i for i, (x, y) in enumerate(zip(known, asked, strict=True)) if x != y), len(known))
    assert matched(memory, asked) == max((p for p in itertools.islice(places(), 50) if p <= common), default=0)


def test_a_text_that_grows_has_the_beginnings_of_the_whole() -> None:
    whole, grown = text(3, 5_000), Beginnings(b"s")
    for length in (10, 64, 65, 700, 4_000, 4_001, 5_000):
        assert list(grown.of(whole[:length])) == list(Beginnings(b"s").of(whole[:length]))


def test_salts_separate() -> None:
    memory = PrefixMemory()
    memory.sent("a", Beginnings(b"mine").of(SYSTEM))
    assert matched(memory, SYSTEM, b"mine") == len(SYSTEM)
    assert matched(memory, SYSTEM, b"yours") == 0
    assert matched(memory, SYSTEM) == 0
    # a salt is not the same as the same bytes in front of the text
    memory.sent("a", Beginnings(b"\1\0\0\0").of(SYSTEM))
    assert matched(memory, (1, *SYSTEM)) == 0


def test_the_oldest_is_forgotten_first_and_long_ends_before_short_beginnings() -> None:
    memory = PrefixMemory(entries=6)
    memory.sent("a", Beginnings().of(SYSTEM))
    memory.sent("a", Beginnings().of(text(1, 3 * BLOCK)))
    assert matched(memory, SYSTEM) == 3 * BLOCK
    memory.sent("a", Beginnings().of(SYSTEM[: 2 * BLOCK]))
    memory.sent("a", Beginnings().of(text(2, 3 * BLOCK)))
    assert matched(memory, SYSTEM) == 2 * BLOCK
    assert matched(memory, text(1, 3 * BLOCK)) == BLOCK
    memory.sent("b", Beginnings().of(text(3, 6 * BLOCK)))
    assert matched(memory, text(2, 3 * BLOCK)) == 3 * BLOCK
    memory.forget("a")
    assert matched(memory, text(2, 3 * BLOCK)) == 0


class Pair:
    """Two targets that are up, the first somewhat farther away."""

    def __init__(self, *, by_prefix: bool = True) -> None:
        self.counts: list[str] = []
        self.peers: list[TargetPeer] = [TargetPeer(f"t{i}:1", tickets(), lambda _: None) for i in range(2)]
        self.pool = TargetPool(self.peers, by_prefix=by_prefix, count=self.counts.append)
        for number, peer in enumerate(self.peers):
            self.pool.came_up(peer, Line(900 - 100 * number), info(), f"i{number}")

    def load(self, *sessions: int) -> None:
        for peer, count in zip(self.peers, sessions, strict=True):
            peer.received([(None, LoadReport(sessions=count))], 0)

    def sent(self, number: int, tokens: tuple[int, ...], salt: bytes = b"") -> None:
        self.pool.sent(self.peers[number], Beginnings(salt).of(tokens))

    def chosen(self, tokens: tuple[int, ...], salt: bytes = b"") -> int:
        peer = self.pool.choose(NOBODY, Beginnings(salt).of(tokens))
        assert peer is not None
        return self.peers.index(peer)


def test_a_known_beginning_decides_between_targets_that_are_as_busy() -> None:
    pair = Pair()
    assert pair.chosen(SYSTEM) == 1
    pair.sent(0, SYSTEM)
    assert pair.chosen(SYSTEM + text(1, 100)) == 0
    assert pair.chosen(text(1, 500)) == 1
    assert pair.chosen(SYSTEM, b"other salt") == 1
    assert pair.counts == ["route_prefix"]


def test_of_two_beginnings_the_longer_one_decides() -> None:
    pair = Pair()
    pair.sent(1, SYSTEM)
    pair.sent(0, SYSTEM + text(1, 200))
    assert pair.chosen(SYSTEM + text(1, 200)) == 0
    assert pair.chosen(SYSTEM + text(2, 200)) == 1
    assert pair.counts == ["route_prefix", "route_prefix_and_load"]


def test_a_beginning_outweighs_as_many_sessions_as_its_prefill_is_worth() -> None:
    pair = Pair()
    pair.sent(0, LONG)
    worth = len(LONG) // TOKENS_PER_SESSION
    pair.load(worth - 1, 0)
    assert pair.chosen(LONG) == 0
    pair.load(worth + 1, 0)
    assert pair.chosen(LONG) == 1
    assert pair.counts == ["route_prefix", "route_load_over_prefix"]


def test_no_beginning_outweighs_more_than_some_sessions() -> None:
    pair, endless = Pair(), text(1, 3 * MOST_SESSIONS * TOKENS_PER_SESSION)
    pair.sent(0, endless)
    pair.load(MOST_SESSIONS - 1, 0)
    assert pair.chosen(endless) == 0
    pair.load(MOST_SESSIONS + 1, 0)
    assert pair.chosen(endless) == 1


def test_a_beginning_that_all_share_spreads_with_the_load() -> None:
    pair, chosen = Pair(), [0, 0]
    for _ in range(100):
        number = pair.chosen(SYSTEM)
        pair.sent(number, SYSTEM)
        chosen[number] += 1
        pair.load(*chosen)
    assert abs(chosen[0] - chosen[1]) <= 2


def test_who_leaves_is_not_chosen_for_a_beginning() -> None:
    pair = Pair()
    pair.sent(0, SYSTEM)
    pair.peers[0].draining = True
    assert pair.chosen(SYSTEM) == 1


def test_a_process_that_was_replaced_has_lost_its_beginnings_and_a_broken_link_has_not() -> None:
    pair = Pair()
    pair.sent(0, SYSTEM)
    pair.peers[0].went_down("cut")
    assert pair.chosen(SYSTEM) == 1
    pair.pool.came_up(pair.peers[0], Line(900), info(), "i0")
    assert pair.chosen(SYSTEM) == 0
    pair.peers[0].went_down("killed")
    pair.pool.came_up(pair.peers[0], Line(900), info(), "another process")
    assert pair.chosen(SYSTEM) == 1


def test_one_that_is_taken_out_is_forgotten() -> None:
    pair = Pair()
    pair.sent(0, SYSTEM)
    pair.peers[0].went_down("gone")
    pair.pool.remove(pair.peers[0])
    assert not pair.pool.by_prefix
    assert pair.pool._prefixes._sent == {}
    assert pair.chosen(SYSTEM) == 1


def test_beginnings_do_not_matter_where_they_are_not_wanted() -> None:
    assert not Pair(by_prefix=False).pool.by_prefix
    assert Pair().pool.by_prefix
