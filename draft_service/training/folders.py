"""Folders that commands are told to write to."""

from __future__ import annotations

from pathlib import Path

from foreword.errors import InvalidField


def make_folder(path: Path, *, field: str) -> None:
    """Make the folder if it is not there; raises InvalidField for a path that cannot be one."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidField(field, str(path), f"a folder that can be written ({error.strerror})") from error
