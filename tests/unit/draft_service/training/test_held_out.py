"""What drafts are measured on: enough of it, always the same, and none of it anything that training can ask."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from itertools import product

import pytest

from draft_service.training.prompts import Ask, PromptGenerator, held_out

TRAINING, HELD_OUT = PromptGenerator(0), held_out()
GAP = re.compile(r"\{(\w+)\}")
WORD = re.compile(r"[^\W\d_]+")
TEXTS, NUMBERS, SHARED = {"source", "snippet"}, {"n", "m", "big"}, {"language", "tongue"}


def words_of(text: str) -> set[str]:
    return set(WORD.findall(text.lower()))


def known() -> set[str]:
    """Return every word that the built-in messages of training can have, around the answers that they quote."""
    templates = (GAP.sub(" ", text) for kind in TRAINING.kinds for text in (*kind.ask, *kind.follow))
    entries = (entry for entries in TRAINING.words.values() for entry in entries)
    return {word for text in (*templates, *entries) for word in words_of(text)}


def filled(template: str, words: PromptGenerator) -> Iterator[str]:
    """Return all that a template without numbers can become; what training quotes stays a gap."""
    gaps = [gap for gap in GAP.findall(template) if gap != "previous"]
    for chosen in product(*(words.words[gap] for gap in gaps)):
        entries = iter(chosen)
        text = GAP.sub(lambda gap, entries=entries: gap[0] if gap[1] == "previous" else next(entries), template)
        yield text[0].upper() + text[1:]


@pytest.mark.parametrize(
    ("seed", "digest"),
    [
        (0, "ba93a2b5eea235312e375fac9df705807666eec81ea4e9933873b0f97c9fd006"),
        (1, "0c16ec8319c5f6d613c20673f9d789638a4dde985301372d646171eac50bc2f3"),
        (1_000_003, "4193ef3beb1f5c2c16296fc97faef43851a854203c942cce2978f8b2fcee8eeb"),
    ],
)
def test_what_training_asks_stays_what_it_was(seed: int, digest: str) -> None:
    """Corpora that were begun go on with it, that of the bundled draft (seed 1) among them."""
    asks = [ask for number in range(4000) for ask in PromptGenerator(seed).script(number)]
    seen = hashlib.sha256(repr([(ask.kind, ask.text, ask.fresh, ask.before) for ask in asks]).encode())
    assert seen.hexdigest() == digest


def test_held_out_prompts_are_many_and_always_the_same_and_of_every_kind() -> None:
    scripts = [HELD_OUT.script(number) for number in range(4000)]
    assert scripts[:200] == [held_out().script(number) for number in range(200)]
    assert len({script[0].text for script in scripts}) > 2500
    kinds = Counter(script[0].kind for script in scripts[:200])
    assert set(kinds) == {kind.name for kind in TRAINING.kinds}
    assert all(ask.text for script in scripts for ask in script), "the target makes up none: training may have seen it"
    gaps = {gap for script in scripts for ask in script for gap in GAP.findall(ask.text)}
    assert not gaps & {*HELD_OUT.words, *NUMBERS, "previous"}


def test_every_held_out_question_has_a_word_that_training_cannot_say() -> None:
    """The proof for questions without a text: over all templates and all words, so for every number and seed."""
    reserved = {name for name, entries in HELD_OUT.words.items() if all(words_of(entry) - known() for entry in entries)}
    assert reserved == set(HELD_OUT.words) - SHARED
    for kind in HELD_OUT.kinds:
        assert kind.after is None
        for template in kind.ask:
            assert set(GAP.findall(template)) & reserved, template
    for generator in (TRAINING, HELD_OUT):
        for kind in generator.kinds:
            for template in (*kind.ask, *kind.follow):
                beside = re.findall(r"(?:[^\W\d_]\{\w+\}|\{(?!n\}|m\}|big\})\w+\}[^\W\d_])", template)
                assert not beside, "a word in a gap would be a part of another"


def test_no_held_out_prompt_is_what_training_asks_about_an_answer() -> None:
    """The proof for what training asks about an answer, whatever that says: its frames fit no held-out prompt."""
    quoting = [text for kind in TRAINING.kinds for text in kind.ask if "{previous}" in text]
    frames = [tuple(text.split("{previous}")) for template in quoting for text in filled(template, TRAINING)]
    assert len(frames) > 30
    assert all("\n\n" in before + after for before, after in frames)
    checked = 0
    for kind in HELD_OUT.kinds:
        for template in kind.ask:
            if not TEXTS & set(GAP.findall(template)):
                assert "\n" not in template, "all frames have a blank line, and words have none"
                continue
            for prompt in filled(template, HELD_OUT):
                checked += 1
                assert not any(prompt.startswith(before) and prompt.endswith(after) for before, after in frames), prompt
    assert checked > 1500
    entries = (entry for name, entries in HELD_OUT.words.items() if name not in TEXTS for entry in entries)
    assert not any("\n" in entry for entry in entries)


def test_the_checks_above_find_a_prompt_that_training_asks() -> None:
    """Planted: a word of training among the reserved ones, and a frame of training around a held-out text."""
    assert not words_of("a lost glove") - known()
    before, after = "Summarize the following text.\n\n", ""
    planted = before + HELD_OUT.words["source"][0]
    frames = [
        tuple(text.split("{previous}")) for text in filled("Summarize the following text.\n\n{previous}", TRAINING)
    ]
    assert frames == [(before, after)]
    assert planted.startswith(frames[0][0])
    assert planted.endswith(frames[0][1])


def test_nothing_that_seeds_of_training_ask_is_held_out() -> None:
    """The same once more without the reasoning, on a sample."""
    held = {ask.text for number in range(3000) for ask in HELD_OUT.script(number) if ask.fresh}
    for seed in (0, 1, 1_000_003):
        asked: set[Ask] = {ask for number in range(5000) for ask in PromptGenerator(seed).script(number)}
        assert not held & {ask.text for ask in asked}
