"""Text of a target for a corpus: many conversations at once on one runner, each a function of its number."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from draft_service.training.corpus import TOP, Answer, Corpus
from draft_service.training.picking import Picked, pick
from draft_service.training.prompts import Ask, PromptGenerator
from draft_service.training.scripts import Scripts
from foreword.errors import InvalidField
from foreword.laws.parameters import LawParameters
from foreword.models.tokenizer import ChatMessage, Tokenizer
from foreword.runner.port import Rows, Runner

_MARK = "\u2402"
"""Stands for a message in a rendered conversation, to see what comes before and after it."""


@dataclass(frozen=True, slots=True)
class SamplingPlan:
    """What is sampled and how."""

    seed: int = 0
    laws: tuple[LawParameters, ...] = (
        LawParameters(temperature=0.0),
        LawParameters(temperature=0.7, top_p=0.95),
        LawParameters(temperature=1.0),
    )
    """Taken in turn by the conversations."""
    most_tokens: int = 192
    """Of one answer."""
    longest_prompt: int = 640
    side_by_side: int = 64
    shard: int = 128
    """Conversations of a shard."""
    chunk: int = 512
    """Rows of prompts in one pass."""


@dataclass(slots=True)
class _Writing:
    """One conversation: where it is in its script, and what it has written of the present answer."""

    number: int
    law: LawParameters
    random: np.random.Generator
    script: tuple[Ask, ...]
    messages: list[ChatMessage] = field(default_factory=list)
    asked: int = 0
    kind: str = ""
    prompt: tuple[int, ...] = ()
    output: list[int] = field(default_factory=list)
    tops: list[Picked] = field(default_factory=list)
    read: int = 0
    free: bool = False
    """Whether it is the message of the user that is being written."""
    answers: list[Answer] = field(default_factory=list)

    @property
    def answered(self) -> int:
        """Tokens of its answers."""
        return sum(len(answer.output) for answer in self.answers)

    @property
    def written(self) -> int:
        """Tokens of its answers, those of the present one included."""
        return self.answered + (0 if self.free else len(self.output))


class Sampler:
    """Fills the shards of a corpus that are not there."""

    def __init__(
        self,
        runner: Runner,
        tokenizer: Tokenizer,
        corpus: Corpus,
        plan: SamplingPlan,
        scripts: Scripts | None = None,
    ) -> None:
        self._runner = runner
        self._tokenizer = tokenizer
        self._corpus = corpus
        self._plan = plan
        self._scripts = scripts or PromptGenerator(plan.seed)
        self._longest_prompt = min(plan.longest_prompt, runner.longest_context - plan.most_tokens)
        self._ends = frozenset(tokenizer.eos_ids)

    def run(self, shards: Sequence[int], progress: Callable[[int, int], None]) -> None:
        """Sample the shards that are missing, in order; `progress` hears of each pass: shards done, tokens written."""
        missing = [shard for shard in shards if shard not in set(self._corpus.shards())]
        numbers = [shard * self._plan.shard + i for shard in missing for i in range(self._plan.shard)]
        numbers.reverse()
        ended: defaultdict[int, list[_Writing]] = defaultdict(list)
        live: dict[int, _Writing] = {}
        finished = tokens = 0
        progress(finished, tokens)
        while numbers or live:
            while numbers and len(live) < self._plan.side_by_side:
                slot = min(set(range(self._plan.side_by_side)) - set(live))
                live[slot] = self._begin(numbers.pop(), slot)
            over = self._without_room(live) or self._step(live)
            for slot, writing in over:
                tokens += writing.answered
                self._runner.close(slot)
                del live[slot]
                finished += self._keep(writing, ended)
            progress(finished, tokens + sum(writing.written for writing in live.values()))

    def _keep(self, writing: _Writing, ended: dict[int, list[_Writing]]) -> bool:
        """Put a conversation to the others of its shard, and write the shard if that was the last; return if it was."""
        shard = writing.number // self._plan.shard
        ended[shard].append(writing)
        if len(ended[shard]) < self._plan.shard:
            return False
        ordered = sorted(ended.pop(shard), key=lambda one: one.number)
        self._corpus.write(shard, [answer for one in ordered for answer in one.answers])
        return True

    def _without_room(self, live: dict[int, _Writing]) -> list[tuple[int, _Writing]]:
        """Take out the conversations whose prompt leaves no room for an answer; they are over."""
        return [(slot, live[slot]) for slot in list(live) if len(live[slot].prompt) > self._longest_prompt]

    def _begin(self, number: int, slot: int) -> _Writing:
        law = self._plan.laws[number % len(self._plan.laws)]
        random = np.random.default_rng((self._plan.seed, number))
        writing = _Writing(number, law, random, self._scripts.script(number))
        self._runner.open(slot)
        self._ask(writing, slot)
        return writing

    def _ask(self, writing: _Writing, slot: int) -> None:
        """Send the next message of the script."""
        ask = writing.script[writing.asked]
        writing.asked += 1
        previous = writing.messages[-1].content if writing.messages else ""
        if ask.fresh:
            writing.messages = list(ask.before)
        writing.kind = ask.kind
        writing.free = not ask.text
        if writing.free:
            self._prompt(writing, slot, self._user_turn())
            return
        writing.messages.append(ChatMessage("user", ask.text.replace("{previous}", previous)))
        self._prompt(writing, slot, self._tokenizer.chat(writing.messages))

    def _prompt(self, writing: _Writing, slot: int, prompt: tuple[int, ...]) -> None:
        writing.prompt, writing.output, writing.tops, writing.read = prompt, [], [], 0
        self._runner.close(slot)
        self._runner.open(slot)

    def _user_turn(self) -> tuple[int, ...]:
        """Return the ids of a conversation up to where the user writes."""
        ids = self._tokenizer.chat([ChatMessage("user", _MARK)])
        mark = self._tokenizer.encode(_MARK)[0]
        return ids[: ids.index(mark)]

    def _step(self, live: dict[int, _Writing]) -> list[tuple[int, _Writing]]:
        """Run one pass; return the conversations that are over."""
        batch, room = [], self._plan.chunk
        for slot, writing in live.items():
            if writing.output:
                batch.append(Rows(slot, (writing.output[-1],), 1))
                continue
            part = writing.prompt[writing.read : writing.read + room]
            if not part:
                continue
            room -= len(part)
            writing.read += len(part)
            batch.append(Rows(slot, part, int(writing.read == len(writing.prompt))))
        logits = self._runner.forward(batch)
        chosen = [(rows.slot, one[0]) for rows, one in zip(batch, logits, strict=True) if rows.need]
        writings = [live[slot] for slot, _ in chosen]
        if not writings:
            return []
        scores = np.stack([one for _, one in chosen])
        laws = [LawParameters(temperature=1.0) if writing.free else writing.law for writing in writings]
        picked = pick(scores, laws, [writing.random.random() for writing in writings], top=TOP)
        over = []
        for (slot, _), writing, one in zip(chosen, writings, picked, strict=True):
            writing.output.append(one.token)
            writing.tops.append(one)
            if (one.token in self._ends or len(writing.output) >= self._plan.most_tokens) and self._answered(
                writing, slot
            ):
                over.append((slot, writing))
        return over

    def _answered(self, writing: _Writing, slot: int) -> bool:
        """Note the answer and go on with the script; return whether it is over."""
        ended = writing.output[-1] in self._ends
        text = self._tokenizer.decode(writing.output).strip()
        if writing.free:
            if not ended or not text:
                return True
            writing.messages = [ChatMessage("user", text)]
            writing.free = False
            return self._too_long(writing, slot)
        writing.answers.append(_answer(writing))
        writing.messages.append(ChatMessage("assistant", text))
        if writing.asked == len(writing.script) or not text:
            return True
        self._ask(writing, slot)
        return len(writing.prompt) > self._longest_prompt

    def _too_long(self, writing: _Writing, slot: int) -> bool:
        self._prompt(writing, slot, self._tokenizer.chat(writing.messages))
        return len(writing.prompt) > self._longest_prompt


def _answer(writing: _Writing) -> Answer:
    return Answer(
        writing.number,
        writing.kind,
        writing.law.temperature,
        1.0 if writing.law.top_p is None else writing.law.top_p,
        np.array(writing.prompt, np.uint32),
        np.array(writing.output, np.uint32),
        np.stack([one.ids for one in writing.tops]).astype(np.uint32),
        np.stack([one.logprobs for one in writing.tops]).astype(np.float16),
    )


def _further(progress: Callable[[int, int], None], held: int, wanted: int, _: int, written: int) -> None:
    progress(held + written, wanted)


FIRST_GUESS = 190
"""Tokens that a conversation brings, before any has been seen."""
_ENOUGH = 0.97
"""Share of the tokens asked for at which no further shard is begun."""


def sample_until(
    sampler: Sampler, corpus: Corpus, *, tokens: int, shard: int, progress: Callable[[int, int], None]
) -> None:
    """Sample until the corpus holds `tokens`, a few per cent more or less; what is there already counts."""
    while (held := corpus.tokens()) < tokens:
        done = corpus.shards()
        mean = held / len(done) if done else FIRST_GUESS * shard
        more = max(1, round((tokens - held) / mean))
        first = done[-1] + 1 if done else 0
        missing = sorted(set(range(first)) - set(done))  # of a run that was cut off, shards end out of order
        wanted = [*missing, *range(first, first + max(1, more - len(missing)))]
        sampler.run(wanted, partial(_further, progress, held, tokens))
        if corpus.tokens() == held:
            raise InvalidField("prompts", "some that bring no text", "some that are answered, and leave room for it")
        if corpus.tokens() >= _ENOUGH * tokens:
            return


def first_answers(corpus: Corpus, tokens: int) -> list[Answer]:
    """Return the answers of the shards that sampling so many tokens fills, whatever else the corpus holds."""
    answers: list[Answer] = []
    for shard in corpus.shards():
        if sum(len(answer.output) for answer in answers) >= _ENOUGH * tokens:
            break
        answers.extend(corpus.read(shard))
    return answers
