"""Which prompts they are, in few letters."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import Any


def fingerprint(prompts: Any) -> str:
    """Return the SHA-256, in hexadecimal, of a dataclass that holds prompts."""
    return hashlib.sha256(json.dumps(asdict(prompts), sort_keys=True).encode()).hexdigest()
