"""What commands write: text with its provenance in colours, JSON, and lines for people on stderr."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final

from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style
from rich.text import Text

from foreword.protocol.generation import Choice, Completion, Delta, Finish
from foreword.protocol.words import TokenSource

_NO_STYLE: Final = "none"
STYLES: Final[Mapping[TokenSource, str]] = {
    TokenSource.TARGET: _NO_STYLE,
    TokenSource.DRAFT: "green",
    TokenSource.LOOKUP: "cyan",
}
"""Colour of text by who wrote it."""

_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Everything that could steer a terminal, but for tab and newline."""


def stdout() -> Console:
    """Return the console for results."""
    return Console(highlight=False, soft_wrap=True)


def stderr() -> Console:
    """Return the console for progress and remarks."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


class TextWriter:
    """Writes a text as it comes: in colours on a terminal, byte for byte elsewhere."""

    def __init__(self, console: Console, *, coloured: bool = True) -> None:
        self._file = console.file
        self._is_terminal = console.is_terminal
        self.coloured = coloured and shows_colours(console)
        """Whether colours tell who wrote what."""
        self._at_line_start = True

    def write(self, delta: Delta) -> None:
        """Write one stretch."""
        if not delta.text:
            return
        for piece, source in delta.pieces():
            # Not by Console.print, which would expand tabs and fold lines.
            text = _CONTROLS.sub("\ufffd", piece) if self._is_terminal else piece
            style = STYLES[source] if self.coloured else _NO_STYLE
            self._file.write(Style.parse(style).render(text, color_system=ColorSystem.STANDARD))
        self._file.flush()
        self._at_line_start = delta.text.endswith("\n")

    def finish(self) -> None:
        """End the last line."""
        if not self._at_line_start:
            self._file.write("\n")
            self._file.flush()
            self._at_line_start = True


def shows_colours(console: Console) -> bool:
    """Return whether colours are seen; with NO_COLOR a console has a system of them all the same."""
    return console.is_terminal and console.color_system is not None and not console.no_color


def legend() -> Text:
    """Return who writes in which colour."""
    return Text.assemble("target, ", ("draft", STYLES[TokenSource.DRAFT]), ", ", ("lookup", STYLES[TokenSource.LOOKUP]))


def harmless(text: str) -> Text:
    """Return a text of someone else's for a line of a terminal, which it can neither steer nor mark up."""
    return Text(_CONTROLS.sub("\ufffd", text).replace("\t", " ").replace("\n", " "))


def write_json(console: Console, value: object) -> None:
    """Write one value as JSON, without colours, so that programs can read it."""
    console.file.write(json.dumps(plain(value), ensure_ascii=False) + "\n")
    console.file.flush()


def completion_json(completion: Completion) -> dict[str, Any]:
    """Return a completion as what JSON can say: the first choice's members on top, `choices` where there are more."""
    choices = [_choice_json(choice) for choice in completion.choices]
    return {
        "request_id": completion.started.request_id,
        "model": completion.started.model,
        **({"prompt_ids": completion.started.prompt_ids} if completion.started.prompt_ids else {}),
        **choices[0],
        **({"choices": choices} if len(choices) > 1 else {}),
    }


def _choice_json(choice: Choice) -> dict[str, Any]:
    return {
        "text": choice.text,
        "ids": choice.ids,
        "sources": choice.sources,
        **({} if choice.logprobs is None else {"logprobs": choice.logprobs}),
        **finish_json(choice.finish),
        "tok_s": choice.decode_rate,
    }


def finish_json(finish: Finish) -> dict[str, Any]:
    """Return how a choice ended as what JSON can say."""
    usage = {
        **plain(finish.usage),
        "acceptance_length": finish.usage.acceptance_length,
        "acceptance_rate": finish.usage.acceptance_rate,
    }
    return {
        "reason": finish.reason,
        "stop": finish.stop,
        "usage": usage,
        "timings": finish.timings,
        "rule": finish.rule,
        "seed": finish.seed,
    }


def summary(choice: Choice) -> str:
    """Return one line about a finished choice."""
    usage = choice.usage
    facts = [f"{usage.output_tokens} tokens"]
    if (rate := choice.decode_rate) is not None:
        facts.append(f"{rate:.1f} tok/s")
    if usage.acceptance_length is not None:
        facts.append(f"acceptance length {usage.acceptance_length:.2f}")
    else:
        facts.append("no drafts")
    if choice.finish.rule is not None:
        facts.append(f"rule {choice.finish.rule.name.lower()}")
    return ", ".join(facts)


def plain(value: object) -> Any:
    """Return a value as what JSON can say: dataclasses as objects, members of enumerations by name, bytes in hex."""
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, bytes):
        return value.hex()
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
