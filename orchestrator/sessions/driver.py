"""Executes the core's actions for one choice of one request; no task and no await per message."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from foreword.clock import Clock
from foreword.errors import ForewordError, Mismatch
from foreword.protocol.info import ModelInfo
from foreword.protocol.messages import (
    BlockOrder,
    Commit,
    DraftCommand,
    DraftOpened,
    Follow,
    LinkState,
    LocalOrder,
    Result,
    TargetAddress,
    TargetCommand,
    TargetOpened,
    TargetScored,
    Tokens,
)
from foreword.protocol.words import Drafter, ResultKind
from foreword.values import replace
from orchestrator.control.memory import Link
from orchestrator.control.round import Round
from orchestrator.core import draft_part, rounds
from orchestrator.core import session as core
from orchestrator.core.state import (
    Count,
    DraftPhase,
    Emit,
    Ended,
    NeedDraft,
    NeedTarget,
    Outcome,
    Phase,
    RoundPlan,
    Session,
    ToDraft,
    ToTarget,
    Watch,
)
from orchestrator.measure.rounds import RoundClock, RoundParts
from orchestrator.measure.window import Window
from orchestrator.policy import Gamma, Policy, RoundView
from orchestrator.pools.drafts import DraftPeer, DraftPool, Wish
from orchestrator.pools.targets import TargetPeer, TargetPool
from orchestrator.pools.tickets import Tickets
from orchestrator.sessions.afterwards import Afterwards
from orchestrator.sessions.deadline import Deadline
from orchestrator.sessions.delivery import Delivery
from orchestrator.sessions.draft_seat import DraftSeat
from orchestrator.sessions.limits import SessionLimits
from orchestrator.sessions.output import Decided, Meters, Output, Places
from orchestrator.sessions.scores import PromptScores
from orchestrator.sessions.target_seat import TargetSeat

_log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all sessions of an orchestrator share."""

    clock: Clock
    afterwards: Afterwards
    targets: TargetPool
    drafts: DraftPool
    tickets: Tickets
    policy: Policy
    meters: Meters
    limits: SessionLimits


class SessionDriver:
    """One generation at work.

    Events come in synchronously from the links, and what they cause is queued on the links before this returns; one
    frame that comes in so makes one frame to each peer. Tokens are handed to the output after that.
    """

    def __init__(
        self, session: Session, output: Output, around: Surroundings, *, gamma: Gamma, wish: Wish | None = None
    ) -> None:
        self.session = session
        self._around = around
        self._output = output
        self._scores = PromptScores(session.sequence.prompt_len)
        self._delivery = Delivery(self, output, afterwards=around.afterwards, meters=around.meters)
        self._gamma = gamma
        self._cached_tokens: int | None = None
        self._ticket: bytes | None = None
        self._lags = Window(1)
        self._rounds = RoundClock()
        self._policy = around.policy.session(gamma)
        self._answered_us: int | None = None
        self._first = True
        """Whether the next Result is the first of its Commit."""
        self._plain = True
        """Whether the Result before came under a lease."""
        self._limit = Deadline(around.clock, self._overdue)
        self._round: tuple[int, bool, RoundParts, bool]
        request, clock = session.request, around.clock
        self._target = TargetSeat(self, around.targets, request, clock=clock, limits=around.limits)
        self._draft = DraftSeat(self, around.drafts, wish or Wish(), clock=around.clock, limits=around.limits)

    # What the request asks for.

    def start(self) -> None:
        """Open the session."""
        self._target.seek()

    def abort(self) -> None:
        """End the session at both engines at once: the client cancelled, or its time is up."""
        self._apply(rounds.aborted(self.session))

    def fail(self, error: ForewordError) -> None:
        """End the session with an error."""
        self._delivery.error = self._delivery.error or error
        self.abort()

    def stopped(self, length: int) -> bool:
        """End the session where a stop text ends the output; returns False if it has ended already."""
        if self.session.phase is Phase.DONE:
            return False
        self._apply(core.stopped(self.session, length))
        return True

    def client_full(self) -> None:
        """The client does not keep up: order nothing more."""
        self._apply(core.client_full(self.session))

    def client_drained(self) -> None:
        """The client keeps up again."""
        self._apply(core.client_drained(self.session, self._plan()))

    def places(self) -> Places:
        """Return what the session has used up to now."""
        used, rule = (self._target.used, self._draft.used), self.session.rule
        return Places(*used, cached_tokens=self._cached_tokens or 0, rule=rule, choice=self._policy.choice)

    @property
    def addresses(self) -> tuple[str, str]:
        """Where its target and its draft are; empty where it has none."""
        target, draft = self._target.peer, self._draft.peer
        return "" if target is None else target.address, "" if draft is None else draft.address

    # What the target's seat asks and reports.

    def tokens(self) -> Tokens:
        """Return the committed tokens."""
        return self.session.sequence.tokens

    def seated(self, peer: TargetPeer, sid: int) -> None:
        """Open the session at a target."""
        address = self._new_address(peer)
        self._limit.set(self._around.limits.open_us)
        self._use_link()
        self._scores.restart()
        gamma_max = peer.info.gamma_max if peer.info is not None else None
        self._apply(core.open_target(self.session, sid, address, self._plan(), gamma_max=gamma_max))
        self._draft.seek()

    def scored(self, message: TargetScored) -> None:
        """The target told log-probabilities of a stretch of the prompt."""
        self._scores.add(message)

    def opened(self, message: TargetOpened) -> None:
        """The target has the prompt."""
        if self.session.request.prompt_logprobs is not None and not self._told_scores():
            return
        if self._cached_tokens is None:
            self._cached_tokens = message.cached_tokens
        self._limit.clear()
        self._apply(core.target_opened(self.session, message, self._plan()))

    def _told_scores(self) -> bool:
        """Hand the log-probabilities of the prompt over, once; fail without them."""
        scores = self._scores.whole()
        if scores is None:
            address = self.addresses[0]
            self.fail(Mismatch(f"target {address}: told no log-probabilities of the prompt, wanted a newer release"))
            return False
        self.session = replace(self.session, request=replace(self.session.request, prompt_logprobs=None))
        self._output.scored(scores)
        return True

    def answered(self, result: Result, arrived_us: int) -> None:
        """A Result came."""
        order = self.session.commit.order if self.session.commit is not None else None
        gamma = order.gamma if isinstance(order, BlockOrder) else 0
        late = gamma > 0 and result.kind is ResultKind.PLAIN
        if result.timing.block_lag_us is not None:
            self._lags.add(result.timing.block_lag_us)
        elif isinstance(order, BlockOrder) and late and not self.session.recalled:
            # All that is known of a late block; without it waits could not grow again.
            self._lags.add(2 * order.wait_us)
        parts = self._rounds.answered(result, arrived_us)
        self._round = gamma, late, parts, isinstance(order, LocalOrder)
        taken = core.decided(self.session, result)
        if taken.emit is not None:
            self._learn(result, taken.emit, gamma, parts, arrived_us)
        self._apply(core.next_round(taken, self._plan()))
        if not result.final:
            self._watch()
        elif self.session.commit is None:
            self._limit.clear()

    def unseated(self, reason: str, *, close: bool) -> None:
        """The session is over at its target."""
        self._limit.clear()
        self._apply(core.target_gone(self.session, reason, close=close))

    # What the draft's seat reports.

    def wants_draft(self) -> bool:
        """Whether the next rounds would use a draft."""
        usable = self._gamma.speculates and self._target.peer is not None and rounds.output_left(self.session) > 1
        return usable and self.session.phase is not Phase.DONE and self.session.draft.phase is DraftPhase.NONE

    def model(self) -> ModelInfo | None:
        """Return the model that drafts have to fit."""
        return self._around.targets.model

    def assigned(self, peer: DraftPeer, sid: int) -> None:
        """Open the session at a draft."""
        assert self._target.peer is not None
        address = self._new_address(self._target.peer)
        self._use_link()
        self._apply(draft_part.assign_draft(self.session, sid, address, vocabulary_map=peer.vocabulary_map))

    def draft_opened(self, message: DraftOpened) -> None:
        """The draft is ready."""
        self._apply(draft_part.draft_opened(self.session, message, self._plan()))

    def draft_followed(self, message: Follow) -> None:
        """The draft told how its guesses went."""
        self._policy.followed(message.agreed, message.compared)
        self._apply(draft_part.followed(self.session, message))

    def unassigned(self, sid: int, reason: str) -> None:
        """The session is over at its draft."""
        self._apply(draft_part.draft_gone(self.session, sid, reason))

    def dismiss(self, reason: str) -> None:
        """Give the draft up although its stream works."""
        self._apply(draft_part.drop_draft(self.session, reason))

    def _link_state(self, report: LinkState) -> None:
        self._apply(draft_part.link_state(self.session, report))

    # Executing what the core asks for.

    def _apply(self, outcome: Outcome) -> None:
        """Take a new state; first send everything, then look for new peers, which may lead back here."""
        self.session, actions = outcome
        reactions = []
        try:
            for action in actions:
                match action:
                    case ToTarget():
                        self._send_to_target(action.command)
                    case ToDraft():
                        self._send_to_draft(action.command)
                    case Emit():
                        self._delivery.add(Decided(action, *self._round))
                    case Watch():
                        self._watch()
                    case Ended():
                        self._close()
                        self._delivery.add(action)
                    case _:
                        reactions.append(action)
        except ForewordError as error:  # a value of the request that no message can carry
            self.fail(error)
            return
        for reaction in reactions:
            self._react(reaction)

    def _react(self, action: NeedTarget | NeedDraft | Count) -> None:
        match action:
            case NeedTarget(reason):
                self._around.meters.event("target_lost")
                _log.debug("target lost", reason=reason, base=self.session.sequence.base)
                self._target.seek_again()
            case NeedDraft(reason):
                self._around.meters.event("draft_lost")
                _log.debug("draft lost", reason=reason, base=self.session.sequence.base)
                self._drop_ticket()
                self._draft.seek_another()
            case Count(name):
                self._around.meters.event(name)
                if name in ("suspect", "link_down"):
                    self._draft.doubt(name)
                elif name == "draft_outgrown":
                    self._draft.outgrow()

    def _send_to_draft(self, command: DraftCommand) -> None:
        if self._draft.peer is not None:
            self._draft.peer.send(command)

    def _send_to_target(self, command: TargetCommand) -> None:
        if self._target.peer is None:
            return
        self._target.peer.send(command)
        if isinstance(command, Commit):
            self._rounds.committed(self._around.clock.now_us())

    def _close(self) -> None:
        self._target.close()
        self._draft.close()
        self._limit.close()
        self._drop_ticket()

    # Tickets, plans and limits.

    def _new_address(self, peer: TargetPeer) -> TargetAddress:
        """Return where a draft's blocks go from now on; at most one ticket is in use."""
        self._drop_ticket()
        self._ticket = self._around.tickets.mint(self._link_state)
        address = peer.info.address if peer.info is not None else ""
        return TargetAddress(address or peer.address, peer.instance, self._ticket)

    def _drop_ticket(self) -> None:
        if self._ticket is not None:
            self._around.tickets.drop(self._ticket)
            self._ticket = None

    def _use_link(self) -> None:
        """Measure between the two peers that the session has now."""
        draft, target = self._draft.peer, self._target.peer
        if draft is not None and target is not None:
            self._lags = self._around.drafts.lags(draft.address, target.address)
            rule, temperature = self.session.rule, self.session.request.law.temperature
            self._policy.moved(Link(draft.address, target.address, rule, temperature))

    def _learn(self, result: Result, emit: Emit, gamma: int, parts: RoundParts, arrived_us: int) -> None:
        """Tell the policy what a round took and brought."""
        before_us, self._answered_us = self._answered_us, arrived_us
        first, self._first = self._first, result.final
        opens, self._plain = gamma > 0 and self._plain, gamma == 0
        if before_us is None:
            return
        draft, target, rows = self._draft.peer, self._target.peer, result.timing.step_rows
        if target is not None:
            target.step_took(rows, result.timing.verify_compute_us)
        seen = Round(
            at_us=arrived_us,
            took_us=arrived_us - before_us,
            ordered=gamma,
            offered=len(result.ids),
            kept=emit.verdict.kept,
            parts=parts,
            first=first,
            opens=opens,
            looked_up=result.drafter is Drafter.LOOKUP,
            own_us=0.0 if target is None else target.added_us(rows, len(result.ids)),
            all_us=0.0 if target is None else target.added_us(rows, max(0, rows - target.load.sessions)),
            others_us=result.timing.others_us,
            round_trip_us=draft.newest_round_trip_us if draft is not None else None,
        )
        self._policy.answered(seen)

    def _plan(self) -> RoundPlan:
        peer, target = self._draft.peer, self._target.peer
        plan = self._policy.plan(
            RoundView(
                now_us=self._around.clock.now_us(),
                block_lag_us=self._lags.quantile(0.95),
                block_lags=len(self._lags),
                draft_round_trip_us=peer.round_trip_us if peer is not None else None,
                newest_round_trip_us=peer.newest_round_trip_us if peer is not None else None,
                price=target.load.price if target is not None else 0.0,
                local=target.info.local_drafter if target is not None and target.info is not None else None,
            )
        )
        if self._target.lawless:  # the next token alone: it may have been the law behind a candidate that failed
            return replace(plan, gamma=0, local=None)
        return plan

    def _watch(self) -> None:
        """Limit the time to the next Result: the wait for a block, some of the longest steps, and a generous floor."""
        limits, commit, peer = self._around.limits, self.session.commit, self._target.peer
        if commit is None or peer is None:
            return
        wait_us = commit.order.wait_us if isinstance(commit.order, BlockOrder) else 0
        self._limit.set(limits.round_us + wait_us + limits.steps * peer.longest_step_us)

    def _overdue(self) -> None:
        if self._target.peer is not None and self.session.phase in (Phase.OPENING, Phase.WAIT):
            self._target.overdue("no answer within the limit")
