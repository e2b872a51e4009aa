"""The built-in prompt generator: what to ask a target so that it writes text of many kinds."""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from draft_service.training.fingerprint import fingerprint
from foreword.models.tokenizer import ChatMessage

FREE = "free"
"""Kind of the conversations whose first message the target writes itself (Xu et al. 2024, Magpie)."""
_FREE_SHARE = 0.35
_FOLLOW_SHARE = 0.35
_GAP = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Ask:
    """A message of the user; `{previous}` stands for what the target has written just before."""

    kind: str
    text: str
    """Empty where the target is to write the message itself."""
    fresh: bool = True
    """Whether it begins a conversation, instead of continuing the last one."""
    before: tuple[ChatMessage, ...] = ()
    """What was said before it, where it begins one."""


@dataclass(frozen=True, slots=True)
class _Kind:
    name: str
    weight: float
    ask: tuple[str, ...]
    follow: tuple[str, ...] = ()
    after: str | None = None


@cache
def _content(file: str) -> tuple[tuple[_Kind, ...], dict[str, tuple[str, ...]]]:
    content = _read(file)
    kinds = tuple(
        _Kind(name, kind["weight"], tuple(kind["ask"]), tuple(kind.get("follow", ())), kind.get("after"))
        for name, kind in content["kinds"].items()
    )
    return kinds, {name: tuple(words.split("|")) for name, words in content["words"].items()}


def _read(file: str) -> dict[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath(file).read_text("utf-8"))


@dataclass(frozen=True, slots=True)
class PromptGenerator:
    """Makes the script of any conversation from its number alone."""

    seed: int
    kinds: tuple[_Kind, ...] = field(default_factory=lambda: _content("kinds.toml")[0])
    words: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _content("kinds.toml")[1])
    free: float = _FREE_SHARE
    """Share of the conversations whose first message the target writes."""

    @property
    def digest(self) -> str:
        """SHA-256, in hexadecimal, of all that it asks from."""
        return fingerprint(self)

    def script(self, number: int) -> tuple[Ask, ...]:
        """Return one to three messages, each to be sent when the one before it has been answered."""
        random_ = random.Random(f"{self.seed}:{number}")
        if random_.random() < self.free:
            return (Ask(FREE, ""),)
        kind = random_.choices(self.kinds, [kind.weight for kind in self.kinds])[0]
        asks = []
        if kind.after is not None:
            source = next(other for other in self.kinds if other.name == kind.after)
            asks.append(Ask(source.name, self._filled(random_.choice(source.ask), random_)))
        asks.append(Ask(kind.name, self._filled(random_.choice(kind.ask), random_)))
        if kind.follow and random_.random() < _FOLLOW_SHARE:
            asks.append(Ask(kind.name, self._filled(random_.choice(kind.follow), random_), fresh=False))
        return tuple(asks)

    def _filled(self, template: str, random_: random.Random) -> str:
        def word(gap: re.Match[str]) -> str:
            name = gap[1]
            if name == "previous":
                return gap[0]
            if name in _NUMBERS:
                return str(random_.randint(*_NUMBERS[name]))
            return random_.choice(self.words[name])

        text = _GAP.sub(word, template)
        return text[0].upper() + text[1:] if text[0] != "{" else text


BUILT_IN, HELD_OUT = "built in", "held out"
"""What the prompts of this module are called, those of training and those that drafts are measured with."""
HELD_OUT_SEED = 1_000_003


def held_out() -> PromptGenerator:
    """Return what asks for text to measure drafts on: nothing that training asks, whatever its seed.

    The target writes no message of the user here: of what it would write, training may have seen any.
    """
    kinds, words = _content("held_out.toml")
    texts = {name: tuple(entries) for name, entries in _read("held_out_texts.toml").items()}
    return PromptGenerator(HELD_OUT_SEED, kinds, words | texts, free=0.0)


_NUMBERS = {"n": (2, 60), "m": (2, 20), "big": (60, 2000)}
