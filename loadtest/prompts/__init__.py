"""Prompts to measure with: one JSON object a line, read into values.

    {"id": "dev-qa-01", "category": "qa", "messages": [{"role": "user", "content": "…"}], "max_tokens": 128}

`dev.jsonl` beside this file has 100 of them, ten of each of ten kinds of text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from foreword.cli.text_file import read_text
from foreword.errors import InvalidField
from foreword.protocol.generation import Message

__all__ = ["Prompt", "dev_prompts", "read_prompts"]


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt: `messages` are the turns of a chat, `max_tokens` is how much output to ask for."""

    id: str
    category: str
    messages: tuple[Message, ...]
    max_tokens: int


def dev_prompts() -> tuple[Prompt, ...]:
    """Return the 100 prompts that come with the package."""
    return _parse((files(__name__) / "dev.jsonl").read_text(encoding="utf-8"), "dev.jsonl")


def read_prompts(path: Path) -> tuple[Prompt, ...]:
    """Return the prompts of a file in its order.

    Raises InvalidField if it cannot be read, and for the first thing that is wrong in it.
    """
    return _parse(read_text(path, field="prompts"), str(path))


def _parse(text: str, name: str) -> tuple[Prompt, ...]:
    # Not splitlines: JSON may hold U+2028 and its like within a string.
    lines = [(f"{name}:{number}", line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    if not lines:
        raise InvalidField(name, "no prompt", "at least one line")
    prompts = tuple(_prompt(line, where) for where, line in lines)
    seen: set[str] = set()
    for (where, _), prompt in zip(lines, prompts, strict=True):
        if prompt.id in seen:
            raise InvalidField(f"{where} id", prompt.id, "an id that no earlier line has")
        seen.add(prompt.id)
    return prompts


def _prompt(line: str, where: str) -> Prompt:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise InvalidField(where, line[:40], f"a JSON object ({error})") from error
    _check_keys(row, (field.name for field in fields(Prompt)), where)
    if type(row["max_tokens"]) is not int or row["max_tokens"] < 1:
        raise InvalidField(f"{where} max_tokens", row["max_tokens"], "a whole number from 1")
    return Prompt(
        id=_text(row["id"], f"{where} id"),
        category=_text(row["category"], f"{where} category"),
        messages=_messages(row["messages"], f"{where} messages"),
        max_tokens=row["max_tokens"],
    )


def _messages(rows: Any, where: str) -> tuple[Message, ...]:
    if not isinstance(rows, list) or not rows:
        raise InvalidField(where, rows, "a list of at least one message")
    messages = []
    for index, row in enumerate(rows):
        _check_keys(row, ("role", "content"), f"{where}[{index}]")
        role, content = (_text(row[key], f"{where}[{index}] {key}") for key in ("role", "content"))
        messages.append(Message(role=role, content=content))
    return tuple(messages)


def _check_keys(row: Any, wanted: Iterable[str], where: str) -> None:
    names = set(wanted)
    if not isinstance(row, dict) or set(row) != names:
        seen = sorted(row) if isinstance(row, dict) else row
        raise InvalidField(where, seen, f"an object with the fields {', '.join(sorted(names))}")


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidField(where, value, "a text that is not empty")
    return value
