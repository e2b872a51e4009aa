"""Breadth-first search over every interleaving of the small world."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from foreword.protocol.messages import Block, DraftOpen, Receipt, TargetOpen, VerdictNotice
from orchestrator.core.state import Phase
from tests.model import orchestrator_moves, peer_moves
from tests.model.orchestrator_moves import Violation
from tests.model.world import Scope, World, initial, reference


@dataclass(frozen=True, slots=True)
class Explored:
    """How much was explored."""

    states: int
    moves: int
    finished: int


def _inert(world: World, source: str, sink: str, message: Any) -> bool:
    """Whether the receiver ignores this message now and ever: its arrival commutes with all else, so it goes first."""
    if sink == "O":
        return source not in (f"T{world.rest.target}", f"D{world.rest.draft}")
    if isinstance(message, Block | DraftOpen | TargetOpen) or message == peer_moves.DOWN:
        return False
    peer = (world.targets if sink[0] == "T" else world.drafts)[int(sink[1:])]
    if isinstance(message, Receipt | VerdictNotice):
        return peer.session is None or peer.session.target.ticket != message.ticket
    return peer.session is None or peer.session.sid != message.sid


def successors(world: World, scope: Scope) -> Iterator[tuple[str, World]]:
    """Yield every move from this state with the state that it leads to."""
    for (source, sink), messages in world.links:
        if _inert(world, source, sink, messages[0]):
            yield "nothing", world.with_link(source, sink, messages[1:])
            return
    for (source, sink), messages in world.links:
        rest = world.with_link(source, sink, messages[1:])
        name = f"{source}→{sink} {type(messages[0]).__name__}"
        if sink == "O":
            yield name, orchestrator_moves.deliver(rest, source, messages[0], scope)
        elif sink[0] == "T":
            yield name, peer_moves.deliver_target(rest, int(sink[1:]), source, messages[0], scope)
        else:
            yield name, peer_moves.deliver_draft(rest, int(sink[1:]), messages[0], scope)
    yield from orchestrator_moves.moves(world, scope)
    for index in range(len(world.targets)):
        yield from peer_moves.target_moves(world, index, scope)
    for index in range(len(world.drafts)):
        yield from peer_moves.draft_moves(world, index)
    if world.generation.phase is not Phase.DONE:
        yield from peer_moves.faults(world)


WARM_UP = (
    "open T0",
    "O→T0 TargetOpen",
    "T0 prefilled",
    "T0→O TargetOpened",
    "assign D0",
    "O→T0 TargetTicket",
    "O→D0 DraftOpen",
    "D0 prefilled",
    "D0→O DraftOpened",
    "O→T0 Recall",
    "T0 builds",
    "T0 steps",
    "T0→O Result",
)
"""The moves to the first block round."""


def _start(scope: Scope) -> World:
    world = initial(scope)
    for wanted in WARM_UP if scope.warm else ():
        world = next(w for name, w in successors(world, scope) if name == wanted)
    return world


class Interner:
    """Numbers the parts of states, so that a state's key is a few small numbers and each new part is hashed once."""

    def __init__(self) -> None:
        self._values: list[Any] = []
        self._by_value: dict[Any, int] = {}
        self._by_id: dict[int, int] = {}

    def number(self, value: Any) -> int:
        """Return the number of this value; equal values have one number."""
        known = self._by_id.get(id(value))
        if known is not None and self._values[known] is value:
            return known
        known = self._by_value.get(value)
        if known is None:
            known = self._by_value[value] = len(self._values)
            self._values.append(value)
            self._by_id[id(value)] = known
        return known

    def key(self, world: World) -> tuple[Any, ...]:
        """Return what tells this state from others."""
        peers = tuple(self.number(peer) for peer in (*world.targets, *world.drafts))
        links = tuple((ends, self.number(messages)) for ends, messages in world.links)
        return self.number(world.generation), peers, links, self.number(world.rest)

    def shared(self, world: World) -> World:
        """Return an equal state made of the numbered parts, so that those that follow find them by identity."""
        get = self._values
        return World(
            generation=get[self.number(world.generation)],
            targets=tuple(get[self.number(peer)] for peer in world.targets),
            drafts=tuple(get[self.number(peer)] for peer in world.drafts),
            links=tuple((ends, get[self.number(messages)]) for ends, messages in world.links),
            rest=get[self.number(world.rest)],
        )


def check(world: World) -> None:
    """Raise Violation where the text is not the only right one."""
    sequence = world.generation.sequence
    if sequence.tokens != reference(sequence.base):
        raise Violation(f"wrong text: {sequence.tokens}")


def explore(scope: Scope, *, most: int = 3_000_000) -> Explored:
    """Visit every reachable state; raise Violation with the path to the first bad one.

    A generation that is done is not followed further. Bad are: a wrong text, a protocol fault between honest peers, a
    session that leaks, a state from which the generation cannot finish.
    """
    start = _start(scope)
    interner = Interner()
    number: dict[tuple[Any, ...], int] = {interner.key(start): 0}
    parents: list[tuple[int, str]] = [(-1, "start")]
    edges: list[list[int]] = [[]]
    done: list[int] = []
    queue = [start]
    moves = 0
    for index, world in enumerate(queue):
        try:
            check(world)
            if world.generation.phase is Phase.DONE:
                done.append(index)
                _check_end(world, scope)
                continue
            for name, following in successors(world, scope):
                moves += 1
                key = interner.key(following)
                known = number.get(key)
                if known is None:
                    known = number[key] = len(queue)
                    queue.append(interner.shared(following))
                    parents.append((index, name))
                    edges.append([])
                edges[known].append(index)
        except Violation as violation:
            raise Violation(f"{violation}\n" + "\n".join(_path(parents, index))) from violation
        if len(queue) > most:
            raise Violation(f"more than {most} states")
    _check_live(done, edges, parents)
    return Explored(len(queue), moves, len(done))


def _check_end(world: World, scope: Scope) -> None:
    base = world.generation.sequence.base
    if world.rest.stopped_at is None and base != scope.output:
        raise Violation(f"ended after {base} tokens, wanted {scope.output}")
    end = drained(world, scope)
    for peer in (*end.targets, *end.drafts):
        if peer.alive and peer.session is not None:
            raise Violation(f"a session leaks: {peer.session}")


def drained(world: World, scope: Scope) -> World:
    """Return the world after all that is on its way has arrived and running steps have ended."""
    while True:
        moves = [w for n, w in successors(world, scope) if n == "nothing" or "→" in n or n.endswith("steps")]
        if not moves:
            return world
        world = moves[0]


def _check_live(done: list[int], edges: list[list[int]], parents: list[tuple[int, str]]) -> None:
    """From every state the end must be reachable: no deadlock, no trap."""
    live = set(done)
    frontier = list(done)
    while frontier:
        frontier = [p for index in frontier for p in edges[index] if p not in live and not live.add(p)]  # type: ignore[func-returns-value]
    for index in range(len(parents)):
        if index not in live:
            raise Violation("stuck:\n" + "\n".join(_path(parents, index)))


def _path(parents: list[tuple[int, str]], index: int) -> list[str]:
    names = []
    while index > 0:
        index, name = parents[index]
        names.append(name)
    return names[::-1]
