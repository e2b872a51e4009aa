"""A target engine in virtual time: a scripted channel, a synthetic runner, and honest peers that react."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, TypeVar

from foreword.acceptance import Evidence, decide, plain
from foreword.grammars.port import Grammars
from foreword.laws.parameters import LawParameters
from foreword.laws.pipeline import LawRows, target_laws
from foreword.models.synthetic import SyntheticModel
from foreword.protocol.messages import (
    Block,
    BlockLaw,
    BlockOrder,
    Commit,
    Order,
    PlainOrder,
    Recall,
    Result,
    TargetClose,
    TargetKeys,
    TargetOpen,
    Tokens,
)
from foreword.protocol.sequence import Sequence as Committed
from foreword.protocol.words import Drafter, Rule
from foreword.runner.port import Rows, Runner
from foreword.testing.synthetic import Pace, Side, SyntheticRunner
from target_service.core.budget import Budget
from target_service.core.policy import Immediate, StepPolicy
from target_service.engine.admission import Bars
from target_service.engine.loop import Engine, EngineOptions
from target_service.engine.messages import Answers, Blocks, Commands, Events, FromEngine, ToEngine
from target_service.local.port import LocalDrafter

KEYS = TargetKeys(b"m" * 16, b"e" * 16, b"c" * 16)
GREEDY = LawParameters(temperature=0.0)
SAMPLED = LawParameters(temperature=1.0)
BUDGET = Budget(512, 256)
PROMPT = (3, 1, 4, 1, 5)
INSTANCE = "target-under-test"
M = TypeVar("M")


class Finished(Exception):
    """The script's time is over."""


@dataclass
class VirtualTime:
    """Microseconds that only the script and the runner move."""

    us: int = 0

    def now(self) -> int:
        return self.us

    def sleep(self, seconds: float) -> None:
        self.us += math.ceil(seconds * 1e6)


class ScriptedChannel:
    """The engine's channel: messages come at set times; what is sent is recorded and shown to listeners."""

    def __init__(self, time: VirtualTime) -> None:
        self.limit_us = 0
        self.batches: list[tuple[int, tuple[FromEngine, ...]]] = []
        self.listeners: list[Callable[[FromEngine], None]] = []
        self._time = time
        self._due: list[tuple[int, int, ToEngine]] = []
        self._order = count()

    def at(self, us: int, message: ToEngine) -> None:
        heapq.heappush(self._due, (us, next(self._order), message))

    def receive(self, timeout_s: float | None) -> list[Sequence[ToEngine]]:
        until = math.inf if timeout_s is None else self._time.us + round(timeout_s * 1e6)
        moment = min(until, self._due[0][0] if self._due else math.inf)
        if timeout_s != 0.0 and moment > self._time.us:
            if moment > self.limit_us:
                raise Finished
            self._time.us = int(moment)
        batch = []
        while self._due and self._due[0][0] <= self._time.us:
            batch.append(heapq.heappop(self._due)[2])
        return [batch] if batch else []

    def send(self, batch: Sequence[FromEngine]) -> None:
        self.batches.append((self._time.us, tuple(batch)))
        for message in batch:
            for listener in self.listeners:
                listener(message)


class Bench:
    """An engine with everything around it."""

    def __init__(
        self,
        *,
        model: SyntheticModel | None = None,
        policy: StepPolicy | None = None,
        wrap: Callable[[Runner], Any] = lambda runner: runner,
        pages: int = 1 << 12,
        page_size: int = 16,
        budget: Budget = BUDGET,
        local: LocalDrafter | None = None,
        grammars: Callable[[], Grammars] | None = None,
        **bars: int,
    ) -> None:
        self.model = model or SyntheticModel(step_ms=20.0)
        self.time = VirtualTime()
        self.channel = ScriptedChannel(self.time)
        pace = Pace(now=lambda: self.time.us / 1e6, sleep=self.time.sleep)
        self.pool = SyntheticRunner(self.model, side=Side.TARGET, pace=pace, pages=pages, page_size=page_size)
        self.runner: Any = wrap(self.pool)
        longest = min(self.model.context, pages * page_size)
        bounds = {"max_sessions": 64, "max_waiting": 0, "longest_length": longest, "gamma_max": 8, **bars}
        self.engine = Engine(
            self.runner,
            self.channel,
            now=self.time.now,
            policy=policy or Immediate(),
            bars=Bars(
                vocabulary_size=self.model.vocabulary,
                no_grammars="this target has no grammars" if grammars is None else "",
                **bounds,
            ),
            options=EngineOptions(instance=INSTANCE, budget=budget, grammars=grammars),
            local=local,
        )

    def run(self, ms: float = 1000.0) -> None:
        """Run until nothing happens before `ms` of virtual time."""
        self.channel.limit_us = round(ms * 1000)
        try:
            self.engine.run()
        except Finished:
            return

    def check_pages(self) -> None:
        """Raise AssertionError unless every page is where it should be."""
        self.pool._pool.check_integrity()

    def command(self, *commands: Any, ms: float = 0.0, stream: int = 1) -> None:
        at_us = round(ms * 1000)
        self.channel.at(at_us, Commands(stream, at_us, commands))

    def block(self, *blocks: Block, ms: float = 0.0, link: int = 9) -> None:
        at_us = round(ms * 1000)
        self.channel.at(at_us, Blocks(link, at_us, blocks))

    def events(self, kind: type[M], *, stream: int | None = None) -> list[M]:
        """Return the events of a kind that were sent, in order."""
        return [event for _, event in self.timed_events(kind, stream=stream)]

    def timed_events(self, kind: type[M], *, stream: int | None = None) -> list[tuple[int, M]]:
        """Return the same with the time of sending, microseconds."""
        return [
            (us, event)
            for us, batch in self.channel.batches
            for message in batch
            if isinstance(message, Events) and stream in (None, message.stream)
            for event in message.events
            if isinstance(event, kind)
        ]

    def answers(self, kind: type[M], *, link: int | None = None) -> list[M]:
        """Return the answers of a kind that were sent, in order."""
        return [
            answer
            for _, batch in self.channel.batches
            for message in batch
            if isinstance(message, Answers) and link in (None, message.link)
            for answer in message.answers
            if isinstance(answer, kind)
        ]


def ticket(sid: int) -> bytes:
    return sid.to_bytes(2, "big") * 8


def open_session(
    sid: int = 1,
    *,
    tokens: Tokens = PROMPT,
    prompt_len: int | None = None,
    law: LawParameters = GREEDY,
    max_output: int = 64,
    with_ticket: bool = True,
    first: Commit | None = None,
    top_logprobs: int | None = None,
) -> TargetOpen:
    return TargetOpen(
        sid=sid,
        tokens=tokens,
        prompt_len=len(tokens) if prompt_len is None else prompt_len,
        law=law,
        keys=KEYS,
        max_output=max_output,
        top_logprobs=top_logprobs,
        ticket=ticket(sid) if with_ticket else None,
        first=first,
    )


@dataclass
class Peer:
    """What an honest orchestrator knows of one session, and the messages that it and its draft would send."""

    sid: int = 1
    rule: Rule = Rule.MATCH
    prompt: Tokens = PROMPT
    sequence: Committed = field(init=False)
    round: int = 0
    unsent: Tokens = ()

    def __post_init__(self) -> None:
        self.sequence = Committed.of(self.prompt, len(self.prompt))

    @property
    def output(self) -> Tokens:
        return self.sequence.since(0)

    def commit(self, order: Order) -> Commit:
        self.round += 1
        base, unsent, self.unsent = self.sequence.base, self.unsent, ()
        return Commit(self.sid, self.round, base, unsent, self.sequence.digest, rule=self.rule, order=order)

    def plain(self, limit: int) -> Commit:
        return self.commit(PlainOrder(limit))

    def speculate(self, gamma: int = 4, wait_ms: float = 50.0) -> Commit:
        return self.commit(BlockOrder(round(wait_ms * 1000), gamma, ticket(self.sid)))

    def block(self, ids: Tokens, *, law: BlockLaw | None = None, ahead: int = 0) -> Block:
        """Return a block for the round of the last Commit, or for one `ahead` of it."""
        base, digest = self.sequence.base, self.sequence.digest
        drafter = Drafter.SYNTHETIC
        return Block(ticket(self.sid), self.round + ahead, base, digest, ids=ids, drafter=drafter, law=law)

    def recall(self) -> Recall:
        return Recall(self.sid, self.round)

    def close(self) -> TargetClose:
        return TargetClose(self.sid, self.sequence.base, self.unsent)

    def take(self, result: Result) -> None:
        """Decide and commit, as an orchestrator does."""
        assert (result.round, result.base) == (self.round, self.sequence.base)
        evidence = Evidence(result.acceptance, result.emit, result.ratios)
        verdict = decide(self.rule, evidence, coin_key=KEYS.coin, round=result.round, base=result.base)
        tokens = verdict.committed(result.ids)
        self.sequence = self.sequence.extended(tokens)
        self.unsent += tokens


def reference(model: SyntheticModel, length: int, *, law: LawParameters = GREEDY, prompt: Tokens = PROMPT) -> Tokens:
    """Return the target's own text under `match`: one token after another, with nothing cached."""
    runner = SyntheticRunner(replace(model, step_ms=0.0), side=Side.TARGET)
    tokens = prompt
    for position in range(length):
        runner.open(position)
        logits = runner.forward([Rows(position, tokens, 1)])[0]
        rows = LawRows(law, logits, prompt, tokens[len(prompt) :], (), first_position=position)
        one = target_laws([rows])[0][0]
        tokens += (plain(Rule.MATCH, one, keys=KEYS, round=0, position=position),)
    return tokens[len(prompt) :]
