"""A bench for engines: a scripted drafter, a clock that stands still, and short ways to write messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from draft_service.core.writing import Drawn
from draft_service.drafters.pen import Pen
from draft_service.drafters.port import Abilities, CompareJob, Drafter, ReadJob
from draft_service.engine.engine import Engine, Policy
from draft_service.engine_messages import (
    Answers,
    BadCommand,
    Blocks,
    Bound,
    Commands,
    Events,
    FromEngine,
    Gauges,
    Released,
    Tallies,
)
from foreword.errors import ForewordError, InvalidField
from foreword.laws.parameters import LawParameters
from foreword.protocol.digest import EMPTY, extend
from foreword.protocol.messages import (
    Advance,
    Block,
    DraftClose,
    DraftCommand,
    DraftEvent,
    DraftKeys,
    DraftOpen,
    Receipt,
    TargetAddress,
    Tokens,
    VerdictNotice,
)
from foreword.protocol.words import Drafter as Kind
from foreword.protocol.words import Rule

MS = 1_000_000
GREEDY = LawParameters(temperature=0.0)
VOCABULARY = 1000


def ticket(sid: int) -> bytes:
    return sid.to_bytes(16, "little")


def target(sid: int, *, address: str = "t:1", instance: str = "T1") -> TargetAddress:
    return TargetAddress(address, instance, ticket(sid))


def opening(
    sid: int, tokens: Tokens = (1, 2, 3), *, law: LawParameters = GREEDY, keys: DraftKeys | None = None
) -> DraftOpen:
    return DraftOpen(sid, tokens, len(tokens), law, keys or DraftKeys(bytes(16)), target(sid), gamma_max=16)


class FakeDrafter:
    """Draws the context's length, one candidate a step, and checks that caches are what jobs say."""

    def __init__(self, *, longest: int = 1 << 20) -> None:
        self.abilities = Abilities(Kind.MODEL, longest, VOCABULARY, None)
        self.caches: dict[int, list[int]] = {}
        self.steps: list[tuple[list[int], list[int]]] = []
        """Slots that drew and tokens that were read, by step."""
        self.meddle: Callable[[Pen], Drawn | ForewordError | None] = lambda pen: None
        self.fail: ForewordError | None = None
        self.refused: set[int] = set()
        """Slots whose jobs are refused, with every pass that they are in."""
        self.during: Callable[[], None] = lambda: None
        self.salts: dict[int, bytes] = {}
        self.adopted = 0
        """Tokens of a beginning that are cached, where `shared` has them."""
        self.shared: dict[tuple[bytes, Tokens], int] = {}

    @property
    def resident_tokens(self) -> int:
        return sum(map(len, self.caches.values()))

    def open(self, slot: int, *, salt: bytes = b"") -> None:
        assert slot not in self.caches
        self.caches[slot] = []
        self.salts[slot] = salt

    def adopt(self, slot: int, tokens: Tokens) -> int:
        known = self.shared.get((self.salts.get(slot, b""), tokens[: self.adopted]), 0)
        self.caches[slot] = list(tokens[:known])
        return known

    def close(self, slot: int) -> None:
        del self.caches[slot]

    def step(self, pens: Sequence[Pen], reads: Sequence[ReadJob]) -> list[Drawn | ForewordError]:
        self.during()
        if self.fail is not None:
            raise self.fail
        self._check([*(pen.slot for pen in pens), *(job.slot for job in reads)])
        self.steps.append(([pen.slot for pen in pens], [token for job in reads for token in job.read.rows]))
        for job in reads:
            self._append(job.slot, job.read.cached, job.read.rows)
        return [self._draw(pen) for pen in pens]

    def compare(self, jobs: Sequence[CompareJob]) -> list[int | ForewordError]:
        if self.fail is not None:
            raise self.fail
        self._check([job.slot for job in jobs])
        for job in jobs:
            self._append(job.slot, job.compare.cached, job.compare.rows)
        return [job.compare.count // 2 for job in jobs]

    def _check(self, slots: Sequence[int]) -> None:
        for slot in slots:
            if slot in self.refused:
                raise InvalidField("temperature", -1.0, "a number from 0")

    def _draw(self, pen: Pen) -> Drawn | ForewordError:
        self._append(pen.slot, pen.cached, pen.rows)
        context = pen.session.context + pen.ids
        assert tuple(self.caches[pen.slot]) == context
        found = self.meddle(pen)
        return Drawn((len(context),), None) if found is None else found

    def _append(self, slot: int, cached: int, rows: Tokens) -> None:
        assert rows
        assert cached <= len(self.caches[slot])
        del self.caches[slot][cached:]
        self.caches[slot].extend(rows)


class Bench:
    """An engine, a clock in ns that only moves by hand, and the committed tokens of each session."""

    def __init__(self, drafter: Drafter | None = None, policy: Policy | None = None) -> None:
        self.now_ns = 1000 * MS
        self.fake = FakeDrafter()
        self.engine = Engine(drafter or self.fake, policy or Policy(), lambda: self.now_ns)
        self.said: list[FromEngine] = []
        self.output: dict[int, Tokens] = {}
        self.digests: dict[int, int] = {}

    def open(self, *messages: DraftOpen, stream: int = 1) -> None:
        for message in messages:
            self.output[message.sid] = ()
            self.digests[message.sid] = extend(EMPTY, message.tokens)
        self.command(*messages, stream=stream)

    def command(self, *commands: DraftCommand | BadCommand, stream: int = 1) -> None:
        self.engine.take(Commands(stream, self.now_ns, commands))

    def order(self, sid: int, round: int, tokens: Tokens = (), *, stream: int = 1, **fields: object) -> Advance:
        """Commit `tokens` and ask for the next block."""
        self.output[sid] += tokens
        self.digests[sid] = extend(self.digests[sid], tokens)
        values = {"rule": Rule.MATCH, "gamma": 4, **fields}
        message = Advance(sid, round, len(self.output[sid]), tokens, self.digests[sid], **values)  # type: ignore[arg-type]
        self.command(message, stream=stream)
        return message

    def answer(self, *answers: Receipt | VerdictNotice) -> None:
        self.engine.take(Answers(self.now_ns, answers))

    def verdict(self, block: Block, kept: int, emitted: int) -> None:
        self.answer(VerdictNotice(block.ticket, block.round, block.digest, kept, emitted))

    def close(self, sid: int, stream: int = 1) -> None:
        self.command(DraftClose(sid), stream=stream)

    def work(self, steps: int = 1, *, step_ns: int = MS) -> None:
        for _ in range(steps):
            self.engine.work()
            self.now_ns += step_ns

    def settle(self, most: int = 100) -> None:
        """Work until nothing is left to do now."""
        for _ in range(most):
            if self.engine.next_ns() > self.now_ns:
                return
            self.engine.work()
        raise AssertionError("the engine never comes to rest")

    def _heard(self) -> list[FromEngine]:
        self.said += self.engine.outgoing.take()
        return self.said

    def blocks(self) -> list[Block]:
        """Return the blocks that went out since the last call."""
        found = [block for message in self._heard() if isinstance(message, Blocks) for block in message.blocks]
        self.said = [message for message in self.said if not isinstance(message, Blocks)]
        return found

    def events(self, stream: int = 1) -> list[DraftEvent]:
        """Return the events of a stream since the last call."""
        mine = [m for m in self._heard() if isinstance(m, Events) and m.stream == stream]
        self.said = [message for message in self.said if message not in mine]
        return [event for message in mine for event in message.events]

    def bindings(self) -> list[Bound | Released]:
        found = [message for message in self._heard() if isinstance(message, Bound | Released)]
        self.said = [message for message in self.said if message not in found]
        return found

    def counts(self) -> dict[str, int]:
        """Return everything that was counted so far; moves the clock to the next report."""
        self.now_ns += 1000 * MS
        self.engine.work()
        found = [m for m in self._heard() if isinstance(m, Tallies)]
        return {name: sum(dict(m.counts).get(name, 0) for m in found) for m in found for name, _ in m.counts}

    def gauges(self) -> Gauges:
        self.now_ns += 1000 * MS
        self.engine.work()
        return [m for m in self._heard() if isinstance(m, Gauges)][-1]
