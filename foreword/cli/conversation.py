"""A conversation as a value, and what may be typed instead of a message."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from foreword.cli.text_file import read_text
from foreword.errors import InvalidField
from foreword.protocol.generation import Chat, Message

HELP = """\
/new            begin anew, with the same system message
/undo           take back the last message and its answer
/retry          ask for the last answer again
/system [TEXT]  begin anew with another system message, or with none
/save FILE      write the conversation as JSON; --load takes it up again
/help           this
/quit           end; Ctrl-D does too
A line that ends with \\ goes on in the next. Ctrl-C ends an answer, which stays as far as it came."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """What was said so far."""

    turns: tuple[Message, ...] = ()

    @classmethod
    def begun(cls, system: str | None) -> Conversation:
        """Return one without a message of the user."""
        return cls(() if not system else (Message("system", system),))

    @property
    def prompt(self) -> Chat:
        """What is sent."""
        return Chat(self.turns)

    @property
    def system(self) -> str | None:
        """The system message, if there is one."""
        return self.turns[0].content if self.turns and self.turns[0].role == "system" else None

    def said(self, role: str, text: str) -> Conversation:
        """Return it with a further turn."""
        return Conversation((*self.turns, Message(role, text)))

    def before_last_question(self) -> tuple[Conversation, str | None]:
        """Return what was said before the user's last message, and that message; None if there is none."""
        for place in range(len(self.turns) - 1, -1, -1):
            if self.turns[place].role == "user":
                return Conversation(self.turns[:place]), self.turns[place].content
        return self, None

    def save(self, file: Path) -> None:
        """Write it as JSON, a list of messages; raises InvalidField where that cannot be."""
        text = json.dumps([{"role": t.role, "content": t.content} for t in self.turns], ensure_ascii=False, indent=2)
        try:
            file.write_text(text + "\n", "utf-8")
        except OSError as error:
            raise InvalidField("save", str(file), f"a file that can be written ({error.strerror})") from error


def load_conversation(file: Path) -> Conversation:
    """Return a conversation that was saved; raises InvalidField for any other file."""
    try:
        turns = [Message(str(turn["role"]), str(turn["content"])) for turn in json.loads(read_text(file, field="load"))]
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidField("load", str(file), "a list of messages as JSON, each with role and content") from error
    return Conversation(tuple(turns))
