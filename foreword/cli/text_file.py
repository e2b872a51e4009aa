"""Files of text that flags name."""

from __future__ import annotations

from pathlib import Path

from foreword.errors import InvalidField


def read_text(path: Path, *, field: str) -> str:
    """Return the text of a file; raises InvalidField for one that cannot be read or is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidField(field, str(path), f"a file that can be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        found = f"byte {error.object[error.start]:#04x} at {error.start}"
        raise InvalidField(field, str(path), f"a file in UTF-8 ({found})") from error
