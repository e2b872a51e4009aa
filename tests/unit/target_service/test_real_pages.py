"""The engine on a real model's pages: sharing, copies on write and preemption change no greedy text."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from foreword.models.synthetic import SyntheticModel
from foreword.protocol.messages import Lost, TargetOpened, Tokens
from foreword.runner.budget import CacheBudget
from foreword.runner.real import real_runner
from target_service.core.budget import Budget
from tests.unit.runner.tiny import LONGEST, V, config, module
from tests.unit.target_service.kit import Bench, Peer, open_session
from tests.unit.target_service.test_preemption import counts, talk

PAGE_SIZE = 4
SHARED = tuple(random.Random(3).randrange(V) for _ in range(18))
PROMPTS = [(*SHARED[:size], *(own,) * 3) for own, size in enumerate((18, 18, 9, 13, 0), 5)]


def texts(
    prompts: Sequence[Tokens], drafted: dict[int, Tokens], *, pages: int, budget: Budget, length: int = 20
) -> tuple[list[Tokens], Bench]:
    """Return the greedy texts of these prompts, written side by side."""
    tokens = CacheBudget(pages * PAGE_SIZE, page_size=PAGE_SIZE)
    runner = real_runner(module(config("llama")), vocabulary_size=V, longest_context=LONGEST, budget=tokens, chunk=64)
    bench = Bench(
        model=SyntheticModel(vocabulary=V, context=LONGEST),
        wrap=lambda _: runner,
        pages=pages,
        page_size=PAGE_SIZE,
        budget=budget,
        gamma_max=4,
        max_waiting=8,
    )
    peers = [Peer(sid, prompt=prompt) for sid, prompt in enumerate(prompts, 1)]
    talk(bench, peers, drafted, length=length)
    for peer in peers:
        first = peer.plain(1 if peer.sid in drafted else 7)
        bench.command(open_session(peer.sid, tokens=peer.prompt, first=first), ms=2.0 * peer.sid)
    bench.run(5_000)
    assert not bench.events(Lost)
    assert runner.resident_tokens == 0
    assert runner.memory.free == runner.memory.pages
    return [peer.output[:length] for peer in peers], bench


@pytest.mark.parametrize("pages", [14, 20, 60])
def test_texts_are_those_of_sessions_that_have_a_cache_to_themselves(pages: int) -> None:
    alone = [texts([prompt], {}, pages=60, budget=Budget(512, 256))[0][0] for prompt in PROMPTS]
    drafted = {1: alone[0], 3: alone[2], 4: alone[3]}
    together, bench = texts(PROMPTS, drafted, pages=pages, budget=Budget(24, 7))
    assert together == alone
    assert (counts(bench).get("preempted", 0) > 0) == (pages < 60)
    assert sum(opened.cached_tokens for opened in bench.events(TargetOpened)) >= 16
