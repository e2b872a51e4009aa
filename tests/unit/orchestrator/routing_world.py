"""Targets with caches of their own, and conversations that come to them, in virtual time: what routing is worth.

A step takes 20 ms and 0.1 ms for each row; prompts are read 512 tokens a step. Four applications have a system prompt
of 1,500 tokens each; a conversation has five turns of 100 to 300 tokens with answers of 100 to 400, and pauses of 4 s
in the mean. A target's cache holds 128,000 tokens, the latest.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean, quantiles

from foreword.protocol.messages import Tokens
from foreword.testing.virtual_clock import VirtualClock
from orchestrator.pools.prefixes import BLOCK, Beginnings, PrefixMemory
from orchestrator.pools.targets import TargetPeer, TargetPool
from tests.unit.orchestrator.test_pools import NOBODY, Line, Member, info, tickets

STEP_US, ROW_US, CHUNK = 20_000, 100, 512
CACHE_TOKENS = 128_000
SYSTEM_TOKENS, TURNS, PAUSE_S = 1_500, 5, 4.0


@dataclass
class Talk:
    """A conversation; what is said does not depend on where."""

    known: Tokens
    turns: int
    chance: random.Random


@dataclass
class Asked:
    """One turn of a conversation at a target."""

    talk: Talk
    tokens: Tokens
    answer: Tokens
    came_us: int
    unread: int = 0
    written: int = 0
    sid: int = 0
    first_us: int = 0
    total_us: int = 0


@dataclass
class Target:
    peer: TargetPeer
    clock: VirtualClock
    done: Callable[[Target, Asked], None]
    cache: PrefixMemory = field(default_factory=lambda: PrefixMemory(CACHE_TOKENS // BLOCK))
    reading: deque[Asked] = field(default_factory=deque)
    writing: list[Asked] = field(default_factory=list)
    running: bool = False
    read: int = 0

    def ask(self, asked: Asked) -> None:
        asked.sid = self.peer.join(Member())
        self.reading.append(asked)
        self.step()

    def step(self) -> None:
        if self.running or not (self.reading or self.writing):
            return
        chunk = 0
        if self.reading:
            head = self.reading[0]
            if not head.unread:
                head.unread = len(head.tokens) - self.cache.matched("own", Beginnings().of(head.tokens[:-1]))
            chunk = min(CHUNK, head.unread)
        self.running = True
        self.clock.call_later(STEP_US + ROW_US * (len(self.writing) + chunk), lambda: self.stepped(chunk))

    def stepped(self, chunk: int) -> None:
        self.running = False
        for asked in list(self.writing):
            asked.written += 1
            if asked.written == len(asked.answer):
                self.end(asked)
        if chunk:
            self.read += chunk
            head = self.reading[0]
            head.unread -= chunk
            if not head.unread:
                self.reading.popleft()
                head.first_us = self.clock.now_us()
                self.cache.sent("own", Beginnings().of(head.tokens))
                self.writing.append(head)
        self.step()

    def end(self, asked: Asked) -> None:
        self.writing.remove(asked)
        self.peer.leave(asked.sid)
        self.cache.sent("own", Beginnings().of(asked.tokens + asked.answer))
        self.done(self, asked)


@dataclass(frozen=True)
class Outcome:
    """What clients saw, in milliseconds, and what targets read."""

    first_ms: float
    first_p95_ms: float
    total_ms: float
    read_share: float
    """Prompt tokens that were read, of all."""


class Traffic:
    """Conversations that come at random, routed by a pool."""

    def __init__(
        self,
        pool: Callable[[list[TargetPeer]], TargetPool],
        *,
        rate: float,
        weights: tuple[int, ...] = (1, 1, 1, 1),
        targets: int = 4,
    ) -> None:
        self.clock = VirtualClock(seed=1)
        peers: list[TargetPeer] = [TargetPeer(f"t{i}:1", tickets(), lambda _: None) for i in range(targets)]
        self.pool = pool(peers)
        self.targets = {peer.address: Target(peer, self.clock, self._done) for peer in peers}
        for peer in peers:
            self.pool.came_up(peer, Line(), info(), peer.address)
        self._chance = random.Random(7)
        self._applications = [text(self._chance, SYSTEM_TOKENS) for _ in weights]
        self._weights = weights
        self._rate = rate
        self._ended: list[Asked] = []
        self._asked_tokens = 0

    def run(self, seconds: float) -> Outcome:
        """Let conversations come for so long, and return how the turns went."""
        at_s = 0.0
        while (at_s := at_s + self._chance.expovariate(self._rate)) < seconds:
            (application,) = self._chance.choices(self._applications, self._weights)
            talk = Talk(application, TURNS, random.Random(self._chance.random()))
            self.clock.call_at(round(at_s * 1e6), partial(self._ask, talk))
        self.clock.run(10_000_000)
        first = [(asked.first_us - asked.came_us) / 1e3 for asked in self._ended]
        read = sum(target.read for target in self.targets.values())
        total = fmean(asked.total_us / 1e3 for asked in self._ended)
        return Outcome(fmean(first), quantiles(first, n=20)[-1], total, read / self._asked_tokens)

    def _ask(self, talk: Talk) -> None:
        talk.known += text(talk.chance, talk.chance.randrange(100, 300))
        asked = Asked(talk, talk.known, text(talk.chance, talk.chance.randrange(100, 400)), self.clock.now_us())
        self._asked_tokens += len(asked.tokens)
        beginnings = Beginnings().of(asked.tokens) if self.pool.by_prefix else ()
        peer = self.pool.choose(NOBODY, beginnings)
        assert peer is not None
        self.pool.sent(peer, beginnings)
        self.targets[peer.address].ask(asked)

    def _done(self, target: Target, asked: Asked) -> None:
        asked.total_us = self.clock.now_us() - asked.came_us
        self._ended.append(asked)
        talk = asked.talk
        talk.known += asked.answer
        talk.turns -= 1
        if self.pool.by_prefix:
            self.pool.sent(target.peer, Beginnings().of(talk.known))
        if talk.turns:
            self.clock.call_later(round(talk.chance.expovariate(1 / PAUSE_S) * 1e6), partial(self._ask, talk))


def text(chance: random.Random, length: int) -> Tokens:
    return tuple(chance.choices(range(50_000), k=length))
