"""A deployment in virtual time: real cores on all three sides, fake links that can be cut, no gRPC.

The text is a function of the tokens before it, so that every test knows what has to come out.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from draft_service.core import session as draft_core
from draft_service.core import state as draft_state
from draft_service.core import writing
from foreword.acceptance import Evidence, decide
from foreword.errors import ForewordError
from foreword.laws.parameters import LawParameters
from foreword.protocol import messages as m
from foreword.protocol.digest import EMPTY, extend
from foreword.protocol.info import ModelInfo, ServerInfo
from foreword.protocol.sequence import Sequence
from foreword.protocol.words import Drafter, LossCode, RefusalCode, Rule
from foreword.testing.virtual_clock import Ties, VirtualClock
from foreword.values import replace
from orchestrator.core.state import Ended, Request, Session
from orchestrator.policy import Gamma, MeasuringPolicy, WaitLimits
from orchestrator.pools.drafts import DraftPool, Trust, Wish
from orchestrator.pools.peer import Peer
from orchestrator.pools.targets import TargetPool
from orchestrator.pools.tickets import Tickets
from orchestrator.sessions.afterwards import Afterwards
from orchestrator.sessions.driver import SessionDriver, Surroundings
from orchestrator.sessions.limits import SessionLimits
from orchestrator.sessions.output import Decided, Places
from target_service.core import mailbox, step
from target_service.core import session as target_core
from target_service.core import state as target_state

VOCABULARY = 50
STOP_ID = 49
MODEL = ModelInfo("m", "synthetic", "", "digest", VOCABULARY, 512, "float32")


def next_token(tokens: tuple[int, ...]) -> int:
    """The target's only choice after these tokens."""
    return extend(EMPTY, tokens) % (VOCABULARY - 1)


def guess(tokens: tuple[int, ...]) -> int:
    """The draft's choice: right four times of five."""
    token = next_token(tokens)
    return token if extend(EMPTY, tokens) // 1000 % 5 else (token + 1) % (VOCABULARY - 1)


def text_after(prompt: tuple[int, ...], count: int) -> tuple[int, ...]:
    """The output that is right."""
    tokens = prompt
    for _ in range(count):
        tokens += (next_token(tokens),)
    return tokens[len(prompt) :]


class FakeServer(ABC):
    """One end of a link in the world: what is sent comes to `take` after a while; cut links bring nothing."""

    kind = ""

    def __init__(self, world: World, address: str) -> None:
        self.world, self.address = world, address
        self.alive = False
        self.generation = 0
        self.sent: list[object] = []
        """What the orchestrator sent since the last start."""
        self.peer: Peer = Peer(address, world.tickets, world.count)

    @property
    def instance(self) -> str:
        return f"{self.address}#{self.generation}"

    def info(self) -> ServerInfo:
        return ServerInfo(MODEL, self.instance, self.address, "0", 1, 1, drafter=self.drafter())

    def drafter(self) -> Drafter | None:
        return None

    def start(self) -> None:
        self.alive = True
        self.generation += 1
        self.sent = []
        self._coming: deque[object] = deque()
        self._going: deque[tuple[int | None, object]] = deque()
        self.reset()

    def kill(self, reason: str = "the stream ended") -> None:
        self.alive = False
        self.generation += 1
        self.peer.went_down(reason)

    def send(self, message: object) -> bool:
        self.sent.append(message)
        self._coming.append(message)
        self.later(lambda: self.take(self._coming.popleft()))
        return True

    def round_trip_us(self) -> int | None:
        return 2 * self.world.delay_us

    newest_round_trip_us = round_trip_us

    def tell(self, sid: int | None, event: object) -> None:
        self._going.append((sid, event))
        self.later(lambda: self.peer.received([self._going.popleft()], self.world.clock.now_us()))

    def later(self, what: Callable[[], None], delay_us: int | None = None) -> None:
        generation = self.generation

        def run() -> None:
            if self.alive and self.generation == generation:
                what()

        self.world.clock.call_later(self.world.delay_us if delay_us is None else delay_us, run)

    @abstractmethod
    def reset(self) -> None:
        """Forget all sessions."""

    @abstractmethod
    def take(self, message: object) -> None:
        """Take a message that has arrived."""


class FakeTarget(FakeServer):
    """Steps of 20 ms with everything that is ready, by the target's real core."""

    refuse: m.Refused | None = None
    stuck = False
    longest_length = 512
    local: Callable[[tuple[int, ...]], int | None] | None = None
    """What its own drafter guesses to come next, None for nothing; without one it decodes plainly."""
    gamma_max = 16
    scored_at_once = 2
    """Tokens of a prompt whose log-probabilities are told together; 0 tells none, as an older release."""
    lawless: Callable[[tuple[int, ...]], bool] | None = None
    """Behind which tokens it cannot compute a law."""
    lawless_code = LossCode.LAW

    def info(self) -> ServerInfo:
        return replace(
            super().info(), gamma_max=self.gamma_max, local_drafter=None if self.local is None else Drafter.LOOKUP
        )

    def reset(self) -> None:
        self.sessions: dict[int, target_state.Session] = {}
        self.running = False
        self.came: dict[tuple[str, int, int], int] = {}

    def start(self) -> None:
        super().start()
        self.world.targets.came_up(self.peer, self, self.info(), self.instance)

    def take(self, message: object) -> None:
        if isinstance(message, m.TargetOpen):
            refused = refusal(RefusalCode.TOO_LONG) if len(message.tokens) >= self.longest_length else self.refuse
            if refused is not None:
                self.tell(message.sid, m.Refused(message.sid, refused.code, "no", refused.retry_after_ms))
                return
            bounds = target_state.Bounds(VOCABULARY, self.longest_length, message.max_output, self.gamma_max)
            session = target_core.opened(message, bounds)
            self.sessions[message.sid] = session
            if message.prompt_logprobs is not None:
                for begin in range(1, message.prompt_len, self.scored_at_once or message.prompt_len):
                    scored = message.tokens[begin : message.prompt_len][: self.scored_at_once]
                    self.later(partial(self._score, message.sid, begin, scored), 1_000 + begin)
            self.later(lambda: self._prefilled(message.sid), 5_000)
            return
        session = self.sessions.get(message.sid)  # type: ignore[attr-defined]
        if session is None:
            return
        if isinstance(message, m.Commit):
            self.came["commit", message.sid, message.round] = self.world.clock.now_us()
        handlers = {
            m.Commit: target_core.committed,
            m.Recall: target_core.recalled,
            m.TargetTicket: lambda s, t: target_core.assigned(s, t.ticket),
            m.TargetClose: target_core.closed,
        }
        self.apply(message.sid, handlers[type(message)](session, message))  # type: ignore[attr-defined]

    def _score(self, sid: int, position: int, tokens: tuple[int, ...]) -> None:
        """Tell log-probabilities from which the tokens can be read."""
        if sid in self.sessions and self.scored_at_once:
            top = tuple(((token, -float(token)),) for token in tokens)
            self.tell(sid, m.TargetScored(sid, position, m.LogProbabilities(tuple(-float(t) for t in tokens), top)))

    def _prefilled(self, sid: int) -> None:
        if sid in self.sessions:
            self.apply(sid, target_core.prefilled(self.sessions[sid]))

    def block(self, block: m.Block) -> None:
        for sid, session in self.sessions.items():
            if block.ticket in session.tickets:
                self.came["block", sid, block.round] = self.world.clock.now_us()
                self.apply(sid, mailbox.received(session, block))
                return

    def apply(self, sid: int, outcome: target_state.Outcome) -> None:
        session, actions = outcome
        self.sessions[sid] = session
        for action in actions:
            match action:
                case target_state.Tell(event):
                    self.tell(sid, event)
                case target_state.Answer(m.VerdictNotice() as notice):
                    self.world.verdict(notice)
                case target_state.HoldStep(_, wait_us):
                    self.later(lambda: self._waited(sid, session.round), wait_us)
                case target_state.Free():
                    del self.sessions[sid]
                case _:
                    continue
        self.step()

    def _waited(self, sid: int, round: int) -> None:
        session = self.sessions.get(sid)
        if session is not None and session.round == round:
            self.apply(sid, target_core.waited(session))

    def step(self) -> None:
        ready = [sid for sid, s in self.sessions.items() if step.buildable(s)]
        if self.running or self.stuck or not ready:
            return
        self.running = True
        works = []
        for sid in ready:
            self._guess(sid)
            self.sessions[sid], work = step.build(self.sessions[sid])
            works.append((sid, work))
        self.later(lambda: self._done(works), 20_000)

    def _guess(self, sid: int) -> None:
        session, ids = self.sessions[sid], ()
        most = step.wanted_guess(session) if self.local is not None else 0
        while len(ids) < most and (token := self.local(session.context + ids)) is not None:
            ids += (token,)
        self.sessions[sid] = step.guessed(session, target_state.Guess(ids, m.OneHot(), Drafter.LOOKUP))

    def _done(self, works: list[tuple[int, step.Work]]) -> None:
        self.running = False
        for sid, work in works:
            session = self.sessions[sid]
            rows = [session.context + work.candidates[:n] for n in range(work.need)]
            if self.lawless is not None and any(map(self.lawless, rows)):
                self.apply(sid, step.failed(session, self.lawless_code, "no token left"))
                continue
            own = [next_token(row) for row in rows]
            if session.proposal is None:
                verdict = decide(Rule.MATCH, Evidence((), (own[0],)), coin_key=b"", round=1, base=0)
                stepped = step.Stepped(Evidence((), (own[0],)), verdict)
                self.apply(sid, step.stepped_plain(session, work, own[0], stepped))
                continue
            kept = 0
            while kept < len(work.candidates) and work.candidates[kept] == own[kept]:
                kept += 1
            acceptance = tuple(float(n < kept) for n in range(len(work.candidates)))
            emit = tuple(token if n <= kept else None for n, token in enumerate(own))
            evidence = Evidence(acceptance, emit)
            verdict = decide(Rule.MATCH, evidence, coin_key=b"", round=1, base=0)
            if session.block is None:
                self.apply(sid, step.guess_verified(session, work, step.Stepped(evidence, verdict)))
                continue
            lag_us = self.came["block", sid, session.round] - self.came["commit", sid, session.round]
            timing = m.RoundTiming(verify_compute_us=20_000, block_lag_us=lag_us)
            self.apply(sid, step.verified(session, work, step.Stepped(evidence, verdict), timing=timing))

    def lose(self, code: LossCode = LossCode.EVICTED) -> None:
        """Lose every session."""
        for sid in list(self.sessions):
            self.apply(sid, target_core.lost(self.sessions[sid], code, "its memory was needed"))


class FakeDraft(FakeServer):
    """A candidate each 2 ms, by the draft's real core."""

    slow = False
    empty = False
    """Whether its time is always up before its first candidate."""
    silent_to_target = False
    longest_length = 512
    refuse: m.Refused | None = None

    def drafter(self) -> Drafter | None:
        return Drafter.MODEL

    def reset(self) -> None:
        self.sessions: dict[int, draft_state.Session] = {}
        self.followed: dict[int, int] = {}

    def start(self) -> None:
        super().start()
        self.world.drafts.came_up(self.peer, self, self.info(), self.instance)

    def take(self, message: object) -> None:
        if isinstance(message, m.DraftOpen):
            refused = refusal(RefusalCode.TOO_LONG) if len(message.tokens) >= self.longest_length else self.refuse
            if refused is not None:
                self.tell(message.sid, m.Refused(message.sid, refused.code, "no", refused.retry_after_ms))
                return
            bounds = draft_state.Bounds(self.longest_length, 16, Drafter.MODEL)
            self.sessions[message.sid] = draft_core.opened(message, bounds)
            self.later(lambda: self._prefilled(message.sid), 3_000)
            return
        session = self.sessions.get(message.sid)  # type: ignore[attr-defined]
        if session is None:
            return
        if isinstance(message, m.DraftClose):
            self.apply(message.sid, draft_core.closed(session))
        elif isinstance(message, m.Advance):
            self.apply(message.sid, draft_core.advanced(session, message))

    def _prefilled(self, sid: int) -> None:
        if sid in self.sessions:
            self.apply(sid, draft_core.prefilled(self.sessions[sid]))

    def verdict(self, notice: m.VerdictNotice) -> None:
        for sid, session in list(self.sessions.items()):
            if session.target.ticket == notice.ticket:
                self.apply(sid, draft_core.verdict_came(session, notice))

    def apply(self, sid: int, outcome: draft_state.Outcome) -> None:
        session, actions = outcome
        self.sessions[sid] = session
        for action in actions:
            match action:
                case draft_state.Tell(event):
                    self.tell(sid, event)
                case draft_state.Push(block):
                    self._push(session, block)
                case draft_state.Free():
                    self.sessions.pop(sid, None)
                    return
                case _:
                    continue
        base, order = session.sequence.base, session.order
        if order is not None and order.gamma == 0 and base >= self.followed.get(sid, 0) + 8:
            self.followed[sid] = base
            self.tell(sid, m.Follow(sid, base, 8, 6))
        if session.phase is draft_state.Phase.DRAFT:
            if self.empty:
                self.later(lambda: self._give_up(sid), 50_000)
                return
            work = writing.draw(session)
            self.later(lambda: self._draw(sid, work), 2_000_000 if self.slow else 2_000)

    def _give_up(self, sid: int) -> None:
        session = self.sessions.get(sid)
        if session is not None:
            self.apply(sid, writing.send(session))

    def _draw(self, sid: int, work: writing.Draw) -> None:
        session = self.sessions.get(sid)
        if session is None or session.phase is not draft_state.Phase.DRAFT or writing.draw(session) != work:
            return
        self.apply(sid, writing.drawn(session, work, writing.Drawn((guess(session.context),), None)))

    def _push(self, session: draft_state.Session, block: m.Block) -> None:
        target = next(t for t in self.world.fake_targets if t.address == session.target.address)
        if not self.silent_to_target and target.instance == session.target.instance:
            target.later(lambda: target.block(block))


@dataclass
class Recorder:
    """An output that keeps what it is told."""

    tokens: list[int] = field(default_factory=list)
    end: Ended | None = None
    places: Places | None = None
    error: ForewordError | None = None
    late: int = 0
    stop_at: int | None = None
    gammas: list[int] = field(default_factory=list)
    bases: list[int] = field(default_factory=list)
    local: list[int] = field(default_factory=list)
    """Candidates of each Result that the target wrote itself."""

    def decided(self, decided: Decided) -> int | None:
        assert self.end is None
        self.bases.append(decided.emit.result.base)
        self.tokens += decided.emit.tokens
        self.late += decided.late
        self.gammas.append(decided.gamma)
        self.local.append(len(decided.emit.result.ids) if decided.local else 0)
        return self.stop_at if self.stop_at is not None and len(self.tokens) >= self.stop_at else None

    def ended(self, ended: Ended, places: Places) -> None:
        assert self.end is None
        self.end, self.places = ended, places

    def failed(self, error: ForewordError) -> None:
        assert self.error is None
        self.error = error


class World:
    """Targets, drafts, and sessions between them; `clock` drives everything."""

    def __init__(
        self,
        *,
        targets: int = 1,
        drafts: int = 1,
        local: Callable[[tuple[int, ...]], int | None] | None = None,
        limits: SessionLimits | None = None,
        ties: Ties = Ties.INSERTION,
        seed: int = 0,
    ) -> None:
        self.clock = VirtualClock(ties=ties, seed=seed)
        self.delay_us = 200
        self.counts: dict[str, int] = {}
        self.late_decisions = 0
        numbers = itertools.count(1)
        self.tickets = Tickets(lambda size: next(numbers).to_bytes(size, "big"))
        self.fake_targets = [FakeTarget(self, f"target{i}") for i in range(targets)]
        self.fake_drafts = [FakeDraft(self, f"draft{i}") for i in range(drafts)]
        self.targets = TargetPool([t.peer for t in self.fake_targets], reopens_at_once=2, count=self.count)
        self.drafts = DraftPool(Trust(), [d.peer for d in self.fake_drafts])
        self.around = Surroundings(
            clock=self.clock,
            afterwards=Afterwards(self.clock),
            targets=self.targets,
            drafts=self.drafts,
            tickets=self.tickets,
            policy=MeasuringPolicy(WaitLimits()),
            meters=self,
            limits=limits or SessionLimits(),
        )
        for target in self.fake_targets:
            target.local = local
        for server in (*self.fake_targets, *self.fake_drafts):
            server.start()

    def count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1

    def event(self, name: str) -> None:
        self.count(name)

    def decided(self, decided: Decided) -> None:
        self.late_decisions += decided.late

    def verdict(self, notice: m.VerdictNotice) -> None:
        for draft in self.fake_drafts:
            if draft.alive:
                draft.later(lambda d=draft: d.verdict(notice))  # type: ignore[misc]

    def session(self, prompt: tuple[int, ...] = (1, 2, 3), *, max_output: int = 40, resume: int = 0) -> Session:
        tokens = prompt + text_after(prompt, resume)
        key = b"k" * 16
        request = Request(
            law=LawParameters(temperature=0.0, stop_ids=(STOP_ID,)),
            target_keys=m.TargetKeys(key, key, key),
            draft_keys=m.DraftKeys(key),
            max_output=max_output,
            gamma_max=16,
            vocabulary_size=VOCABULARY,
        )
        return Session(request, Sequence.of(tokens, len(prompt)), Rule.MATCH)

    def drive(
        self, session: Session | None = None, *, gamma: int = 4, recorder: Recorder | None = None
    ) -> tuple[SessionDriver, Recorder]:
        recorder = recorder or Recorder()
        driver = SessionDriver(session or self.session(), recorder, self.around, gamma=Gamma(fixed=gamma), wish=Wish())
        driver.start()
        return driver, recorder


def refusal(code: RefusalCode, retry_after_ms: int | None = None) -> m.Refused:
    return m.Refused(0, code, "no", retry_after_ms)
