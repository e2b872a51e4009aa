"""What the demonstration asks: one short prompt of each kind of text, or those of a file."""

from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foreword.cli.text_file import read_text
from foreword.errors import InvalidField
from foreword.protocol.generation import Chat, Message, Prompt, TokenPrompt


@dataclass(frozen=True, slots=True)
class DemoPrompt:
    """One prompt and what kind of text it asks for."""

    id: str
    category: str
    prompt: Prompt
    max_tokens: int | None = None
    """Where it is not the demonstration's."""

    @property
    def shown(self) -> str:
        """The last turn, or the text, in one line."""
        match self.prompt:
            case Chat(messages):
                text = messages[-1].content
            case TokenPrompt(ids):
                text = f"{len(ids)} token ids"
            case text:
                pass
        return textwrap.shorten(text, 200, placeholder=" …")


def _chat(category: str, text: str) -> DemoPrompt:
    return DemoPrompt(category, category, Chat((Message("user", text),)))


def built_in(target: str) -> list[DemoPrompt]:
    """Return the built-in prompts for a target; synthetic models read numbers."""
    if target.startswith("synthetic:"):
        return [DemoPrompt(f"numbers-{i}", "numbers", " ".join(map(str, range(i, i + 6)))) for i in range(1, 7)]
    return [
        _chat("chat", "I moved to a new town and work from home. How can I meet people? Give me three ideas."),
        _chat("story", "Begin a story about a lighthouse keeper who finds a letter between the rocks."),
        _chat("question", "Why do leaves turn red and yellow in autumn? Answer in two sentences."),
        _chat("arithmetic", "A box holds 24 plums and costs $6.50. What do 336 plums cost? Answer step by step."),
        _chat("code", "Write a Python function that counts the vowels in a text, with one example of its use."),
        _chat(
            "edit",
            "Repeat this text and correct its one misspelling: The harbour was quiet. The boats lay still on the "
            "watter, and the harbour master counted the boats twice before he went home along the harbour wall.",
        ),
    ]


def read_prompts(path: Path) -> list[DemoPrompt]:
    """Return the prompts of a file of JSON lines with `messages` or `prompt`, and optionally id, category, max_tokens.

    Raises InvalidField for a file that cannot be read, and for the first line that is not such an object.
    """
    lines = read_text(path, field="prompts").splitlines()
    prompts = [_read(path, number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if not prompts:
        raise InvalidField("prompts", str(path), "a file with at least one prompt")
    return prompts


def _read(path: Path, number: int, line: str) -> DemoPrompt:
    place = f"{path}:{number}"
    try:
        entry: Any = json.loads(line)
        prompt: Prompt = entry["prompt"] if "prompt" in entry else _messages(entry["messages"])
        name = str(entry.get("id", f"prompt-{number}"))
        found = DemoPrompt(name, str(entry.get("category", "")), prompt, entry.get("max_tokens"))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidField(place, line[:60], "a JSON object with messages or prompt") from error
    if not isinstance(found.prompt, str | Chat) or not isinstance(found.max_tokens, int | None):
        raise InvalidField(place, line[:60], "a text as prompt and a whole number as max_tokens")
    return found


def _messages(messages: list[dict[str, str]]) -> Chat:
    if not messages:
        raise ValueError("no message")
    return Chat(tuple(Message(message["role"], message["content"]) for message in messages))
