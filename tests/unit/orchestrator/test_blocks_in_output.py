"""Blocks against everything that assumes one token a step: what comes out, counts and ends is that of plain decoding.

Each test is a kind of fault that users of speculative decoding reported, with the right value (docs/cases.md).
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from foreword.errors import InvalidField
from foreword.laws.parameters import LawParameters
from foreword.protocol.generation import Delta, Event, Finish, GenerateRequest, Speculation, TokenPrompt, Usage
from foreword.protocol.messages import BlockOrder, Commit, DraftOpen, Tokens
from foreword.protocol.words import FinishReason, RefusalCode, TokenSource
from orchestrator.front.checks import FrontLimits, chosen_gamma
from orchestrator.sink.usage import UsageCounter
from tests.unit.orchestrator.test_front import PROMPT, Stage, ids_of, text_of
from tests.unit.orchestrator.texts import WordStream, WordText
from tests.unit.orchestrator.world import World, guess, refusal, text_after

REQUEST = GenerateRequest("1 2 3", max_tokens=40, law=LawParameters(temperature=0.0))
WORDS = text_after(PROMPT, 40)
gammas = pytest.mark.parametrize("gamma", [0, 1, 4, 16])


def asking(gamma: int, **fields: object) -> GenerateRequest:
    return replace(REQUEST, speculation=Speculation(gamma=gamma), **fields)  # type: ignore[arg-type]


def finish_of(events: list[Event]) -> Finish:
    finish = events[-1]
    assert isinstance(finish, Finish)
    return finish


def sources_of(events: list[Event]) -> list[TokenSource]:
    return [source for event in events if isinstance(event, Delta) for source in event.sources]


@gammas
async def test_a_stop_id_inside_a_block_ends_ids_text_and_usage_at_the_same_token(gamma: int) -> None:
    """Tokens behind an end of text are neither put out nor counted, wherever in a block it stands."""
    for place in range(12, 20):
        law = LawParameters(temperature=0.0, stop_ids=(WORDS[place],))
        end = WORDS.index(WORDS[place]) + 1
        stage = Stage()
        events = await stage.run(asking(gamma, law=law))
        finish = finish_of(events)
        assert ids_of(events) == WORDS[:end]
        assert text_of(events) == "".join(f"{t} " for t in WORDS[: end - 1])
        assert (finish.reason, finish.stop) == (FinishReason.STOP, str(WORDS[place]))
        assert finish.usage.output_tokens == end
        assert finish.usage.accepted_tokens == sum(s is TokenSource.DRAFT for s in sources_of(events))
        assert stage.world.fake_targets[0].sent[-1].final_length == end  # type: ignore[attr-defined]


@gammas
@pytest.mark.parametrize("include", [False, True])
async def test_a_stop_text_ends_everything_at_the_same_token_wherever_it_stands_in_a_block(
    gamma: int, include: bool
) -> None:
    """Over the ends of blocks and of tokens: what belongs to the stop text is neither put out nor counted."""
    text = "".join(f"{word} " for word in WORDS)
    places = 0
    for place in range(12, 20):
        stop = text_of_words(place, 3)[1:-2]  # from the middle of a word to the middle of another
        end = text.index(stop) + (len(stop) if include else 0)
        stage = Stage()
        events = await stage.run(asking(gamma, stop=(stop,), include_stop=include))
        finish, ids = finish_of(events), ids_of(events)
        assert (finish.reason, finish.stop) == (FinishReason.STOP, stop)
        assert text_of(events) == text[:end]
        assert ids == WORDS[: len(ids)]
        assert finish.usage.output_tokens == len(ids) == len(sources_of(events)) == len(words_within(end))
        assert finish.usage.accepted_tokens == sum(source is TokenSource.DRAFT for source in sources_of(events))
        assert stage.world.fake_targets[0].sent[-1].final_length == len(ids)  # type: ignore[attr-defined]
        places += sum(source is TokenSource.DRAFT for source in sources_of(events)) > 0
    assert (places >= 6) == (gamma > 0), "the texts were written in blocks"


def text_of_words(place: int, count: int) -> str:
    return "".join(f"{word} " for word in WORDS[place : place + count])


def words_within(end: int) -> Tokens:
    """Return the words that begin before a place in the text."""
    begins = [len(text_of_words(0, place)) for place in range(len(WORDS))]
    return tuple(word for word, begin in zip(WORDS, begins, strict=True) if begin < end)


@gammas
async def test_max_tokens_is_exact_wherever_it_cuts_a_block(gamma: int) -> None:
    """Never one token more than was asked for, never one less, and what was cut is not billed."""
    for most in range(1, 30):
        events = await Stage().run(asking(gamma, max_tokens=most))
        finish = finish_of(events)
        assert ids_of(events) == WORDS[:most]
        assert finish.reason is FinishReason.LENGTH
        assert finish.usage.output_tokens == most
        assert finish.usage.accepted_tokens <= most


@gammas
async def test_a_stop_id_as_the_last_token_of_the_budget_is_a_stop(gamma: int) -> None:
    """The budget is looked at after the end of text, so the reason is the right one."""
    first = WORDS.index(WORDS[17])
    law = LawParameters(temperature=0.0, stop_ids=(WORDS[17],))
    finish = finish_of(await Stage().run(asking(gamma, law=law, max_tokens=first + 1)))
    assert (finish.reason, finish.usage.output_tokens) == (FinishReason.STOP, first + 1)
    before = finish_of(await Stage().run(asking(gamma, law=law, max_tokens=first)))
    assert (before.reason, before.usage.output_tokens) == (FinishReason.LENGTH, first)


async def test_blocks_never_reach_past_the_budget() -> None:
    """No candidate is asked for that could not be put out with a token of the target behind it."""
    stage = Stage()
    await stage.run(asking(16, max_tokens=23))
    orders = [(c.base, c.order) for c in stage.world.fake_targets[0].sent if isinstance(c, Commit)]
    blocks = [(base, order.gamma) for base, order in orders if isinstance(order, BlockOrder)]
    assert blocks
    assert all(base + size + 1 <= 23 for base, size in blocks)


async def test_token_0_is_a_token_like_any_other() -> None:
    """An id of 0 is never taken for none: as a prompt, as a candidate, as what is emitted, and as a stop id."""
    prompt = next((n, 0, 0) for n in range(50) if 0 in text_after((n, 0, 0), 30))
    words = text_after(prompt, 30)
    for gamma in (0, 4):
        events = await Stage().run(asking(gamma, prompt=TokenPrompt(prompt), max_tokens=30))
        assert ids_of(events) == words
        law = LawParameters(temperature=0.0, stop_ids=(0,))
        events = await Stage().run(asking(gamma, prompt=TokenPrompt(prompt), max_tokens=30, law=law))
        assert ids_of(events) == words[: words.index(0) + 1]
        assert finish_of(events).stop == "0"


class Blank(WordText):
    """A tokenizer whose ids are all written as white space or as nothing."""

    def stream(self, before: Tokens, *, skip_special: bool) -> WordStream:
        return BlankStream()


class BlankStream(WordStream):
    def push(self, token: int) -> str:
        return ("\n", " ", "")[token % 3]


@gammas
async def test_output_of_nothing_but_white_space_ends_and_is_counted_in_ids(gamma: int) -> None:
    """Tokens are counted as ids, never by splitting text: blank text loops nowhere and costs what it should."""
    stage = Stage()
    assert stage.front._intake is not None
    stage.front._intake.text = Blank()  # type: ignore[assignment]
    events = await stage.run(asking(gamma))
    assert ids_of(events) == WORDS
    assert not text_of(events).strip()
    assert finish_of(events).usage.output_tokens == 40


async def test_beyond_the_drafts_context_a_session_decodes_plainly_and_says_so() -> None:
    """A draft that can read no more proposes nothing; nothing is made up, and metrics and usage tell."""
    world = World()
    world.fake_drafts[0].longest_length = 20
    events = await Stage(world).run(asking(4))
    usage = finish_of(events).usage
    assert ids_of(events) == WORDS
    assert usage.verifications > 0
    assert usage.plain_steps >= 40 + len(PROMPT) - 20
    assert world.counts["draft_outgrown"] == 1
    assert not world.fake_drafts[0].sessions, "its memory is free for others"


async def test_beyond_a_drafts_context_another_draft_takes_over() -> None:
    """Lookup, or a draft with more room, writes on in the same request."""
    world = World(drafts=2)
    world.fake_drafts[0].longest_length = 20
    events = await Stage(world).run(asking(4))
    usage = finish_of(events).usage
    assert ids_of(events) == WORDS
    assert usage.drafts_used == 2
    assert sources_of(events)[25:].count(TokenSource.DRAFT) > 5
    assert world.counts["draft_outgrown"] == 1


async def test_a_prompt_longer_than_the_drafts_context_is_decoded_plainly() -> None:
    """The draft refuses it or has no room for a candidate; either way the request is served."""
    world = World()
    world.fake_drafts[0].longest_length = len(PROMPT)
    events = await Stage(world).run(asking(4))
    assert ids_of(events) == WORDS
    assert finish_of(events).usage.verifications == 0


async def test_a_draft_that_is_full_is_asked_again_and_nobody_waits_for_it() -> None:
    """A draft without room costs a session its speed for a while, and never its answer."""
    world = World()
    world.fake_drafts[0].refuse = refusal(RefusalCode.FULL, 100)
    stage = Stage(world)
    task = asyncio.create_task(stage.run(asking(4)))
    world.clock.call_later(150_000, lambda: setattr(world.fake_drafts[0], "refuse", None))
    events = await task
    usage = finish_of(events).usage
    assert ids_of(events) == WORDS
    assert usage.plain_steps >= 8
    assert usage.verifications > 0
    assert world.counts["draft_lost"] == 2


async def test_drafts_write_as_many_candidates_as_were_asked_for() -> None:
    """A block is as long as the request says, not as long as some other default, until the budget cuts it."""
    stage = Stage()
    events = await stage.run(asking(7))
    orders = [c.order for c in stage.world.fake_targets[0].sent if isinstance(c, Commit)]
    sizes = [order.gamma for order in orders if isinstance(order, BlockOrder)]
    assert set(sizes[:-2]) == {7}
    offered = finish_of(events).usage.offered_per_position
    assert len(offered) == 7
    assert sum(offered) == sum(sizes)


async def test_no_block_is_longer_than_its_target_verifies() -> None:
    """A session that moves follows the target it is at."""
    world = World(targets=2)
    first, second = world.fake_targets
    for target, most in ((first, 3), (second, 5)):
        target.kill()
        target.gamma_max = most
        target.start()
    stage = Stage(world)
    task = asyncio.create_task(stage.events(asking(7)))
    await asyncio.sleep(0)
    world.clock.call_later(150_000, lambda: next(t for t in (first, second) if t.sessions).kill())
    await stage.spin(task)
    assert ids_of(task.result()) == WORDS
    sizes = {
        target.gamma_max: {
            c.order.gamma for c in target.sent if isinstance(c, Commit) and isinstance(c.order, BlockOrder)
        }
        for target in (first, second)
    }
    assert [max(sizes[most]) for most in (3, 5)] == [3, 5]
    opens = [c for draft in world.fake_drafts for c in draft.sent if isinstance(c, DraftOpen)]
    assert opens[0].gamma_max in (3, 5)


def counted(words: Tokens, bases: list[int], sizes: list[int]) -> tuple[list[int], list[int]]:
    """Count again, from the texts alone, how often candidate i was offered and kept."""
    offered, kept = [0] * max(sizes), [0] * max(sizes)
    for base, size in zip(bases, sizes, strict=True):
        ids: Tokens = ()
        for _ in range(size):
            ids += (guess(PROMPT + words[:base] + ids),)
        agreed = next((i for i in range(size) if ids[i] != words[base + i]), size)
        for i in range(size):
            offered[i] += 1
            kept[i] += i < agreed
    return offered, kept


async def counts_of(stage: Stage) -> tuple[Usage, tuple[list[int], list[int]]]:
    """Return what a request says of its acceptance, and the same counted from the texts."""
    events = await stage.run(asking(4))
    commits = [c for c in stage.world.fake_targets[0].sent if isinstance(c, Commit)]
    blocks = [(c.base, c.order.gamma) for c in commits if isinstance(c.order, BlockOrder)]
    return finish_of(events).usage, counted(WORDS, [base for base, _ in blocks], [size for _, size in blocks])


async def test_acceptance_is_what_the_texts_say() -> None:
    """Per request and per position, from verdicts: a candidate behind a rejection was offered and not kept."""
    usage, (offered, kept) = await counts_of(Stage())
    assert usage.late_blocks == 0
    assert list(usage.offered_per_position) == offered
    assert list(usage.accepted_per_position) == kept
    assert 0 < sum(kept) < sum(offered) == usage.drafted_tokens
    assert usage.acceptance_rate == sum(kept) / sum(offered) < 1
    assert usage.acceptance_length == 1 + sum(kept) / usage.verifications


async def test_an_acceptance_of_everything_by_counting_only_what_was_kept_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted: candidates count as offered only once they are kept, which makes every rate 100 %."""

    def flattered(self, decided):  # type: ignore[no-untyped-def]
        result, verdict = decided.emit.result, decided.emit.verdict
        ids = result.ids[: verdict.kept]
        kept = replace(result, ids=ids, acceptance=result.acceptance[: verdict.kept])
        honest(self, replace(decided, emit=replace(decided.emit, result=kept)))

    honest = UsageCounter.decided
    monkeypatch.setattr(UsageCounter, "decided", flattered)
    usage, (offered, _) = await counts_of(Stage())
    assert usage.acceptance_rate == 1.0
    assert list(usage.offered_per_position) != offered


@pytest.mark.parametrize(("asked", "allowed"), [(None, 0), (0, 0)])
def test_a_server_can_turn_speculation_off_for_everybody(asked: int | None, allowed: int) -> None:
    """`gamma_max: 0` is a server without speculation; a request that insists is told so and not ignored."""
    limits = FrontLimits(gamma=0, gamma_max=0)
    assert chosen_gamma(replace(REQUEST, speculation=Speculation(gamma=asked)), limits).fixed == allowed
    with pytest.raises(InvalidField, match=r"speculation.gamma: got 4, wanted a whole number from 0 to 0"):
        chosen_gamma(asking(4), limits)


def test_a_server_that_does_not_speculate_by_default_does_when_it_is_asked() -> None:
    """`gamma: 0` leaves the choice to requests."""
    limits = FrontLimits(gamma=0)
    assert chosen_gamma(REQUEST, limits).fixed == 0
    assert chosen_gamma(asking(4), limits).fixed == 4
