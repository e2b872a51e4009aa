"""What a request asks of its law holds for verified tokens as for plain ones; rejected tokens leave nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from foreword.laws.parameters import LawParameters
from foreword.models.synthetic import SyntheticModel
from foreword.protocol.messages import Receipt, Result
from foreword.protocol.words import ReceiptCode, ResultKind
from target_service.core.state import Free, Outcome
from target_service.engine.messages import Events, FromEngine
from target_service.engine.sessions import Sessions
from tests.unit.target_service.kit import Bench, Peer, open_session, reference

EVERYTHING = LawParameters(
    temperature=0.8,
    top_k=20,
    top_p=0.95,
    min_p=0.01,
    repetition_penalty=1.05,
    presence_penalty=0.3,
    frequency_penalty=0.2,
    bias=((7, 4.0), (9, -3.0)),
    banned_ids=(11, 12),
    stop_ids=(7,),
    min_tokens=30,
)
LAWS = {
    "repetition": LawParameters(temperature=0.0, repetition_penalty=1.05),
    "repetition, strong": LawParameters(temperature=0.0, repetition_penalty=1.8),
    "frequency": LawParameters(temperature=0.0, frequency_penalty=1.5),
    "presence": LawParameters(temperature=1.0, presence_penalty=1.5),
    "min-p": LawParameters(temperature=1.0, min_p=0.1),
    "top-k": LawParameters(temperature=1.0, top_k=3),
    "bias": LawParameters(temperature=1.0, bias=((7, 3.0),)),
    "bans": LawParameters(temperature=0.0, banned_ids=tuple(range(0, 64, 2))),
    "minimum length": LawParameters(temperature=0.0, bias=((7, 50.0),), stop_ids=(7,), min_tokens=25),
    "everything": EVERYTHING,
}
LENGTH = 30


def verified(law: LawParameters) -> tuple[Peer, Bench]:
    """Decode with blocks that are right for a while and then wrong; the wrong tokens repeat what stands there."""
    bench, peer = Bench(model=SyntheticModel(vocabulary=64, step_ms=20.0)), Peer()
    own = reference(bench.model, LENGTH, law=law)
    bench.command(open_session(law=law, first=peer.plain(1), max_output=LENGTH + 1))
    rights: Iterator[int] = iter(i % 5 for i in range(1000))

    def react(message: FromEngine) -> None:
        for event in message.events if isinstance(message, Events) else ():
            if isinstance(event, Result):
                peer.take(event)
                if event.final and peer.sequence.base < LENGTH:
                    ms, base = bench.time.us / 1000, peer.sequence.base
                    right = own[base : base + next(rights)]
                    bench.command(peer.speculate(), ms=ms + 1)
                    bench.block(peer.block((*right, own[base - 1], own[base - 1])[:4]), ms=ms + 2)

    bench.channel.listeners.append(react)
    bench.run(3000)
    return peer, bench


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS.keys())
def test_every_parameter_holds_at_every_verified_position(law: LawParameters) -> None:
    """Penalties count the candidates before a position, and nothing is skipped or refused because of a draft."""
    peer, bench = verified(law)
    kept = [sum(r.acceptance) for r in bench.events(Result) if r.kind is ResultKind.EVIDENCE]
    assert peer.output[:LENGTH] == reference(bench.model, LENGTH, law=law)
    assert max(kept) >= 3


def test_a_penalty_that_forgets_the_candidates_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: penalties see the last committed token in the place of every candidate."""
    from target_service.engine import judge

    honest = judge.law_rows

    def forgetful(*args):  # type: ignore[no-untyped-def]
        session, work, *_ = args
        return replace(honest(*args), candidates=(session.context[-1],) * len(work.candidates))

    law = LAWS["frequency"]
    monkeypatch.setattr(judge, "law_rows", forgetful)
    peer, bench = verified(law)
    assert peer.output[:LENGTH] != reference(bench.model, LENGTH, law=law)


def test_only_committed_tokens_are_left_for_other_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prefix may be re-used up to what was committed; rejected candidates that lie in the cache do not count."""
    freed: list[int] = []
    honest = Sessions.apply

    def watching(self, record, outcome: Outcome, *, at_us: int) -> None:  # type: ignore[no-untyped-def]
        freed.extend(action.committed for action in outcome[1] if isinstance(action, Free))
        honest(self, record, outcome, at_us=at_us)

    monkeypatch.setattr(Sessions, "apply", watching)
    bench, peer = Bench(), Peer()
    own = reference(bench.model, 4)
    wrong = (own[1] + 1) % 64
    bench.command(open_session())
    bench.command(peer.speculate(), ms=30)
    bench.block(peer.block((own[0], wrong, wrong, wrong)), ms=31)
    bench.run(60)
    (result,) = bench.events(Result)
    peer.take(result)
    assert peer.output == own[:2]
    bench.command(peer.close(), ms=70)
    bench.run(100)
    assert freed == [5 + 1], "the prompt and the candidate that was kept; what was emitted is not in the cache yet"
    assert bench.runner.resident_tokens == 0


def test_a_tree_is_refused_by_name_while_there_are_chains_only() -> None:
    """Nothing guesses which branch was meant; the round goes plain."""
    bench, peer = Bench(), Peer()
    bench.command(open_session())
    bench.command(peer.speculate(wait_ms=5), ms=30)
    bench.block(replace(peer.block((1, 2)), parents=(0, 0)), ms=31)
    bench.run(100)
    (receipt,) = bench.answers(Receipt)
    assert receipt.code is ReceiptCode.BAD
    assert "parents: got a tree, wanted a chain" in receipt.message
    assert [r.kind for r in bench.events(Result)] == [ResultKind.PLAIN]
