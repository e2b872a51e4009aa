"""Prompts of one's own: a file of JSON lines in place of the built-in generator."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from draft_service.training.fingerprint import fingerprint
from draft_service.training.prompts import Ask
from foreword.cli.text_file import read_text
from foreword.errors import InvalidField
from foreword.models.tokenizer import ChatMessage


class Scripts(Protocol):
    """What users say, conversation by conversation."""

    @property
    def digest(self) -> str:
        """SHA-256, in hexadecimal, of what it asks from."""

    def script(self, number: int) -> tuple[Ask, ...]:
        """Return the messages of a conversation, a function of its number; each is sent when the last is answered."""


@dataclass(frozen=True, slots=True)
class FileScripts:
    """Prompts of a file, taken in turn; a conversation's law comes in turn as well, so that in time all meet all."""

    asks: tuple[Ask, ...]

    @property
    def digest(self) -> str:
        """SHA-256, in hexadecimal, of the prompts, wherever they lie."""
        return fingerprint(self)

    def script(self, number: int) -> tuple[Ask, ...]:
        """Return the one message of a conversation."""
        return (self.asks[number % len(self.asks)],)


def read_prompts(path: Path) -> FileScripts:
    """Read lines like {"prompt": "…"} or {"messages": [{"role": "user", "content": "…"}]}, with a "category" or not.

    Raises InvalidField for a file that cannot be read, or with the number of the first line that is not such an object.
    """
    asks = []
    for number, line in enumerate(read_text(path, field="prompts").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            asks.append(_ask(entry))
        except (ValueError, KeyError, TypeError) as error:
            wanted = 'an object with a "prompt", or with "messages" of which the last is the user\'s'
            raise InvalidField(f"prompts line {number}", line[:60], wanted) from error
    if not asks:
        raise InvalidField("prompts", str(path), "a file with at least one prompt")
    return FileScripts(tuple(asks))


def _ask(entry: dict[str, Any]) -> Ask:
    messages = entry["messages"] if "messages" in entry else [{"role": "user", "content": entry["prompt"]}]
    *before, last = [ChatMessage(str(one["role"]), str(one["content"])) for one in messages]
    if last.role != "user" or not last.content:
        raise ValueError("last message")
    return Ask(str(entry.get("category", "file")), last.content, before=tuple(before))
