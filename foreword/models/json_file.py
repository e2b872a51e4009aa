"""JSON objects in the files of a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from foreword.errors import Corrupted


def read_json(path: Path) -> Mapping[str, Any]:
    """Return the object in a file, an empty one where there is no file; raise Corrupted, naming the file."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_bytes())
    except ValueError as error:
        raise Corrupted(f"{path}: {error}, wanted JSON") from error
    if not isinstance(value, dict):
        raise Corrupted(f"{path}: got a {type(value).__name__}, wanted a JSON object")
    return value
