"""A session that is played against a synthetic target, with and without draft-ahead."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import numpy as np

from draft_service.drafters.choosing import Style
from draft_service.drafters.lookup import LookupStyle
from draft_service.drafters.mixed import MixedDrafter
from draft_service.drafters.model import ModelDrafter
from draft_service.drafters.port import Abilities
from draft_service.engine.admission import Room
from draft_service.engine.engine import Policy
from draft_service.engine_messages import Tallies
from foreword.laws.parameters import LawParameters
from foreword.models.synthetic import SyntheticModel
from foreword.protocol.digest import EMPTY, extend
from foreword.protocol.messages import Block, Tokens
from foreword.protocol.words import Drafter as Kind
from foreword.protocol.words import Rule
from foreword.testing.synthetic import Side, SyntheticRunner
from foreword.testing.synthetic_laws import SyntheticLaws
from foreword.values import replace
from tests.unit.draft_service.kit import GREEDY, MS, Bench, opening
from tests.unit.draft_service.models import KEYS

MODEL = SyntheticModel(vocabulary=32, step_ms=0.0, agreement=0.7, context=400)
PROMPT = (1, 2, 3, 4, 5)


def model_drafter(runner: SyntheticRunner, *, style: Style | None = None) -> ModelDrafter:
    return ModelDrafter(runner, Abilities(Kind.SYNTHETIC, MODEL.context, MODEL.vocabulary, None), style or Style())


@dataclass
class Scene:
    """A bench, its runner, and a target that decides by its own likeliest token."""

    branches: int = 16
    mixed: bool = False
    pages: int = 4000
    room: int | None = None
    law: LawParameters = GREEDY
    rule: Rule = Rule.MATCH
    style: Style = field(default_factory=Style)
    sent: list[Block] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.runner = SyntheticRunner(MODEL, side=Side.DRAFT, pages=self.pages, page_size=4)
        model = model_drafter(self.runner, style=self.style)
        self.drafter = MixedDrafter(LookupStyle(), model, lambda: 0) if self.mixed else model
        self.bench = Bench(self.drafter, Policy(branches=self.branches, room=Room(tokens=self.room)))
        self.laws = SyntheticLaws(MODEL)
        self.texts: dict[int, Tokens] = {}

    def open(self, *sids: int, prompt: Tokens = PROMPT) -> Scene:
        for sid in sids:
            self.bench.open(opening(sid, (*prompt, sid), law=self.law, keys=KEYS))
            self.texts[sid] = (*prompt, sid)
        self.bench.settle()
        return self

    def order(self, sid: int, round: int, tokens: Tokens = (), **fields: object) -> None:
        self.texts[sid] += tokens
        self.bench.order(sid, round, tokens, **{"rule": self.rule, **fields})

    def drafted(self) -> list[Block]:
        """Work until nothing is to be done, and return what went out."""
        self.bench.settle(400)
        found = self.bench.blocks()
        self.sent += found
        return found

    def outcome(self, text: Tokens, block: Block, random: Random | None = None) -> tuple[int, int]:
        """Return how many candidates the target keeps, and the token after them."""
        for kept, candidate in enumerate((*block.ids, -1)):
            row = self.laws.target(np.array([extend(EMPTY, (*text, *block.ids[:kept]))], np.uint64))[0]
            token = int(row.argmax())
            if token != candidate and (random is None or candidate == -1 or random.random() < 0.5):
                return kept, token
        raise AssertionError("no token is likeliest")

    def play(
        self, rounds: int, *, sid: int = 1, first: int = 1, random: Random | None = None, **fields: object
    ) -> None:
        """Verdicts come first, then Advances, as in a stack at work."""
        self.order(sid, first, **fields)
        for round in range(first, first + rounds):
            blocks = [b for b in self.drafted() if b.round == round and int.from_bytes(b.ticket, "little") == sid]
            block = blocks[0] if blocks else self.block(round, sid)
            kept, token = self.outcome(self.texts[sid], block, random)
            self.bench.verdict(block, kept, token)
            self.bench.now_ns += MS
            self.order(sid, round + 1, (*block.ids[:kept], token), **fields)

    def block(self, round: int, sid: int = 1) -> Block:
        """Return the block of a round that assumes what was committed."""
        digest = extend(EMPTY, self.texts[sid])
        found = [block for block in self.sent if (block.round, block.digest) == (round, digest)]
        assert found, f"no block of round {round} for what was committed"
        return found[0]

    def useful(self, sid: int = 1) -> list[Block]:
        """Return the blocks of rounds that came to be, durations left out."""
        found: dict[int, Block] = {}
        for block in self.sent:
            text = self.texts[sid]
            starts = [extend(EMPTY, text[:n]) for n in range(len(PROMPT) + 1, len(text) + 1)]
            if block.digest in starts:
                found.setdefault(block.round, replace(block, draft_queue_us=0, draft_compute_us=0))
        return [found[round] for round in sorted(found)]

    def fates(self) -> dict[str, int]:
        """Return how many outcomes were prepared, shipped, hit and missed since the last call."""
        self.bench.counts()
        found: dict[str, int] = {}
        for message in self.bench.said:
            if isinstance(message, Tallies):
                for fate, _, times in message.ahead:
                    found[fate] = found.get(fate, 0) + times
        self.bench.said = [message for message in self.bench.said if not isinstance(message, Tallies)]
        return found
