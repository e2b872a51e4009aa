"""A thousand things happen to sessions in a cache that is too small: it is whole throughout, and empty afterwards."""

from __future__ import annotations

import random

import pytest

from foreword.models.synthetic import SyntheticModel
from foreword.protocol.messages import Commit, Lost, Result
from target_service.core.budget import Budget
from target_service.engine.messages import Events, FromEngine, StreamEnded
from tests.unit.target_service.kit import Bench, Peer, open_session
from tests.unit.target_service.test_preemption import Checked, counts

SESSIONS = 120
STREAMS = (1, 2, 3)


class Lives:
    """Sessions on a few streams that open, verify, roll back, are recalled, stop short and are cancelled at random."""

    def __init__(self, bench: Bench, chance: random.Random) -> None:
        self.done = 0
        self._bench = bench
        self._chance = chance
        self._peers: dict[tuple[int, int], Peer] = {}

    def open(self, sid: int, *, ms: float) -> None:
        stream, size = self._chance.choice(STREAMS), self._chance.randint(1, 40)
        peer = Peer(sid, prompt=tuple((sid % 4 + i // 3) % 64 for i in range(size)))
        self._peers[stream, sid] = peer
        first = peer.plain(self._chance.randint(1, 9)) if self._chance.random() < 0.8 else None
        self._do(open_session(sid, tokens=peer.prompt, first=first, max_output=60), stream=stream, ms=ms)
        if first is None:
            self._go_on(stream, peer, ms=ms + 500)
        if self._chance.random() < 0.3:
            self._do(peer.close(), stream=stream, ms=ms + self._chance.uniform(0, 900))

    def hear(self, message: FromEngine) -> None:
        for event in message.events if isinstance(message, Events) else ():
            if isinstance(event, Result):
                self._answered(message.stream, event)

    def _answered(self, stream: int, event: Result) -> None:
        peer = self._peers[stream, event.sid]
        if event.round != peer.round or event.base != peer.sequence.base:
            return
        peer.take(event)
        ms = self._bench.time.us / 1000
        if self._chance.random() < 0.06 or peer.sequence.base >= 55:
            cut = self._chance.randint(0, peer.sequence.base)  # at a stop text, perhaps
            close = peer.close()
            self._do(close if cut % 2 else type(close)(peer.sid, cut, ()), stream=stream, ms=ms)
        elif event.final:
            self._go_on(stream, peer, ms=ms + 1)

    def _go_on(self, stream: int, peer: Peer, *, ms: float) -> None:
        if self._chance.random() < 0.3:
            self._do(peer.plain(self._chance.randint(1, 9)), stream=stream, ms=ms)
            return
        self._do(peer.speculate(wait_ms=30), stream=stream, ms=ms)
        guess = tuple(self._chance.randrange(64) for _ in range(self._chance.randint(0, 4)))
        self._bench.block(peer.block(guess), ms=ms + self._chance.choice((0, 8, 50)))
        if self._chance.random() < 0.1:
            self._do(peer.recall(), stream=stream, ms=ms + 4)

    def _do(self, command: object, *, stream: int, ms: float) -> None:
        self.done += 1 + isinstance(command, Commit)  # the step that answers it
        self._bench.command(command, ms=ms, stream=stream)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_afterwards_the_cache_is_empty(seed: int) -> None:
    bench = Bench(
        model=SyntheticModel(step_ms=5.0),
        pages=28,
        page_size=4,
        gamma_max=4,
        max_sessions=12,
        max_waiting=20,
        wrap=Checked,
        budget=Budget(24, 9),
    )
    lives = Lives(bench, random.Random(seed))
    bench.channel.listeners.append(lives.hear)
    for sid in range(1, SESSIONS + 1):
        lives.open(sid, ms=40.0 * sid)
    for stream in STREAMS:
        bench.channel.at(2_000_000 + 400_000 * stream, StreamEnded(stream))
        bench.channel.at(20_000_000, StreamEnded(stream))
    bench.run(30_000)
    assert lives.done >= 1000
    assert counts(bench)["preempted"] >= 3
    assert not bench.events(Lost)
    assert bench.runner.resident_tokens == 0
    assert bench.pool.memory.free == 28
    bench.check_pages()
