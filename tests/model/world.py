"""A small world for the model checker: one generation, two targets, two drafts, ordered links, faults.

The real state tables run in it unchanged. The target's "model" is a deterministic function of the context, so the only
right output is known: whatever is verified on a wrong context, retracted, lost or repeated shows as another text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from draft_service.core.state import Session as DraftSession
from foreword.laws.parameters import LawParameters
from foreword.protocol import digest as digests
from foreword.protocol.messages import DraftKeys, TargetKeys, Tokens
from foreword.protocol.sequence import Sequence
from foreword.protocol.words import Rule
from foreword.values import replace
from orchestrator.core.state import Request, RoundPlan
from orchestrator.core.state import Session as Generation
from target_service.core.state import Session as TargetSession
from target_service.core.step import Work

KEY = bytes(16)
VOCABULARY = (1, 2)
PROMPT: Tokens = (1, 2)


def next_token(context: Tokens) -> int:
    """Return the only right token after this context."""
    return VOCABULARY[digests.extend(digests.EMPTY, context) & 1]


def reference(length: int) -> Tokens:
    """Return the prompt and the only right output of `length` tokens."""
    tokens = PROMPT
    for _ in range(length):
        tokens += (next_token(tokens),)
    return tokens


@dataclass(frozen=True, slots=True)
class Scope:
    """How large the explored world is."""

    output: int = 3
    gamma: int = 2
    faults: tuple[str, ...] = ()
    """Which faults may happen, each once: draft_dies, draft_dropped, target_dies, link_down, overdue, slow_client,
    stop, send_by."""
    ships: int = 0
    """How many blocks a draft may ship ahead of a verdict, right or wrong."""
    wrong: int = 99
    """How many wrong candidates drafts may draw in all."""
    drafts: int = 2
    targets: int = 2
    warm: bool = False
    """Whether to start where the first block round is out, after one leased token, instead of at the very start."""


@dataclass(frozen=True, slots=True)
class TargetPeer:
    """One target process: alive, with at most the one session, between steps or in one."""

    alive: bool = True
    session: TargetSession | None = None
    work: Work | None = None
    plain: bool = False


@dataclass(frozen=True, slots=True)
class DraftPeer:
    """One draft process; `later` tells that its block is to be offered again."""

    alive: bool = True
    session: DraftSession | None = None
    later: bool = False


@dataclass(frozen=True, slots=True)
class Rest:
    """What is left of the world: whom the generation uses and needs, and what may still happen."""

    target: int | None = None
    draft: int | None = None
    need_target: bool = True
    need_draft: bool = True
    next_id: int = 1
    faults: tuple[str, ...] = ()
    ships: int = 0
    wrong: int = 99
    stopped_at: int | None = None
    last_round: int = 0
    """Round of the last Commit that was sent to any target."""


@dataclass(frozen=True, slots=True)
class World:
    """One state; `links` maps (from, to) to the messages on their way, oldest first."""

    generation: Generation
    targets: tuple[TargetPeer, ...]
    drafts: tuple[DraftPeer, ...]
    links: tuple[tuple[tuple[str, str], tuple[Any, ...]], ...] = ()
    rest: Rest = field(default_factory=Rest)

    def link(self, source: str, sink: str) -> tuple[Any, ...]:
        """Return the messages on their way from `source` to `sink`."""
        return dict(self.links).get((source, sink), ())

    def with_link(self, source: str, sink: str, messages: tuple[Any, ...]) -> World:
        """Return this world with other messages on their way."""
        links = dict(self.links)
        links.pop((source, sink), None)
        if messages:
            links[source, sink] = messages
        return replace(self, links=tuple(sorted(links.items())))

    def sent(self, source: str, sink: str, message: Any) -> World:
        """Return this world with one more message on its way."""
        return self.with_link(source, sink, (*self.link(source, sink), message))

    def without_links(self, peer: str) -> World:
        """Return this world with everything lost that was on its way from or to `peer`."""
        return replace(self, links=tuple((ends, m) for ends, m in self.links if peer not in ends))

    def put_target(self, index: int, peer: TargetPeer) -> World:
        """Return this world with another state of one target."""
        return replace(self, targets=(*self.targets[:index], peer, *self.targets[index + 1 :]))

    def put_draft(self, index: int, peer: DraftPeer) -> World:
        """Return this world with another state of one draft."""
        return replace(self, drafts=(*self.drafts[:index], peer, *self.drafts[index + 1 :]))


def initial(scope: Scope) -> World:
    """Return the world at the start of a generation."""
    request = Request(
        law=LawParameters(temperature=0.0),
        target_keys=TargetKeys(KEY, KEY, KEY),
        draft_keys=DraftKeys(KEY),
        max_output=scope.output,
        gamma_max=scope.gamma,
        vocabulary_size=3,
    )
    return World(
        generation=Generation(request, Sequence.of(PROMPT, len(PROMPT)), Rule.MATCH),
        targets=(TargetPeer(),) * scope.targets,
        drafts=(DraftPeer(),) * scope.drafts,
        rest=Rest(faults=scope.faults, ships=scope.ships, wrong=scope.wrong),
    )


def plan(scope: Scope) -> RoundPlan:
    """Return the plan of every round."""
    return RoundPlan(gamma=scope.gamma, wait_us=0)
