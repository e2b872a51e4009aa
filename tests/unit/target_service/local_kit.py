"""Drafters inside the target that guess what a test wants, and an orchestrator that only orders local leases."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from foreword.laws.parameters import LawParameters
from foreword.protocol.messages import LocalOrder, OneHot, Result, Tokens
from foreword.protocol.words import Drafter
from target_service.core.state import Guess
from target_service.engine.messages import Events, FromEngine, Status
from target_service.local.port import Wish
from tests.unit.target_service.kit import GREEDY, PROMPT, Bench, Peer, open_session


class TextDrafter:
    """Guesses by a function of the text; checks what it is told against what the session says."""

    kind = Drafter.LOOKUP

    def __init__(
        self, guess: Callable[[Tokens, int], Tokens], *, longest_context: int = 1 << 20, at_once: int = 1 << 20
    ) -> None:
        self.longest_context, self.at_once = longest_context, at_once
        self.texts: dict[int, Tokens] = {}
        self.told: list[int] = []
        self._guess = guess

    def guess(self, wishes: Sequence[Wish]) -> list[Guess]:
        return [Guess(self._one(wish), OneHot(), self.kind) for wish in wishes]

    def close(self, slot: int) -> None:
        self.texts.pop(slot, None)

    def _one(self, wish: Wish) -> Tokens:
        text = self.texts[wish.slot] = self.texts.get(wish.slot, ())[: wish.stands] + wish.new
        self.told.append(len(wish.new))
        assert text == wish.session.context[: len(text)], "what it was told is what stands"
        if not wish.most:
            return ()
        assert text == wish.session.context, "it has the whole text when it is asked"
        return self._guess(text, wish.most)[: wish.most]


def leased(
    bench: Bench,
    peer: Peer,
    *,
    gamma: int = 4,
    limits: Sequence[int] = (1 << 20,),
    length: int = 40,
    law: LawParameters = GREEDY,
    prompt: Tokens = PROMPT,
    seconds: float = 4.0,
    drafter: Drafter = Drafter.LOOKUP,
) -> list[Result]:
    """Decode `length` tokens by local leases of up to `limits` tokens in turn; return their Results."""
    orders = [LocalOrder(drafter, gamma, limit) for limit in limits]
    count = 0

    def order() -> LocalOrder:
        nonlocal count
        count += 1
        return orders[(count - 1) % len(orders)]

    def react(message: FromEngine) -> None:
        for event in message.events if isinstance(message, Events) else ():
            if isinstance(event, Result):
                peer.take(event)
                if event.final and peer.sequence.base < length:
                    bench.command(peer.commit(order()), ms=bench.time.us / 1000 + 1)

    bench.channel.listeners.append(react)
    bench.command(open_session(peer.sid, tokens=prompt, law=law, first=peer.commit(order()), max_output=length))
    bench.run(1000 * seconds)
    return bench.events(Result)


def statuses(bench: Bench) -> list[Status]:
    return [message for _, batch in bench.channel.batches for message in batch if isinstance(message, Status)]
