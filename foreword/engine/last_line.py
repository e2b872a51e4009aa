"""The last thing that a process said of why it died: its last line, other than what it logs while all is well."""

from __future__ import annotations

import json
import re
from typing import Final

_LONGEST: Final = 2_000
"""Characters of a line that are kept, from its end."""
_WELL: Final = frozenset(("info", "debug"))
_CONSOLE: Final = re.compile(r"\S+ \[(\w+) *\] ")
"""How a line of our log begins on a terminal."""
_COLOURS: Final = re.compile(r"\x1b\[[\d;]*m")


class LastLine:
    """Follows a text that comes in pieces."""

    def __init__(self) -> None:
        self._told = ""
        self._unfinished = ""

    def feed(self, text: str) -> None:
        """Take what comes next."""
        *lines, unfinished = (self._unfinished + text).replace("\r", "\n").split("\n")
        self._told = next((line for line in map(str.strip, reversed(lines)) if _tells(line)), self._told)[-_LONGEST:]
        self._unfinished = unfinished[-_LONGEST:]

    @property
    def text(self) -> str:
        """The last line that tells something; empty for none."""
        unfinished = self._unfinished.strip()
        return unfinished if _tells(unfinished) else self._told


def _tells(line: str) -> bool:
    return bool(line) and _level(line) not in _WELL


def _level(line: str) -> str:
    """Return the level of a line of our own log; empty for any other line."""
    if (found := _CONSOLE.match(_COLOURS.sub("", line))) is not None:
        return found[1]
    if not line.startswith("{"):
        return ""
    try:
        said = json.loads(line)
    except ValueError:
        return ""
    return str(said.get("level", "")) if isinstance(said, dict) else ""
