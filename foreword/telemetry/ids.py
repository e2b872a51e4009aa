"""Ids of calls and of faults, the same over gRPC and HTTP."""

from __future__ import annotations

import re
import uuid
from typing import Final

REQUEST_ID: Final = "x-request-id"
"""Metadata and header that carry the id of a call, in both directions."""
_SHAPE: Final = re.compile(r"[\x21-\x7e]{1,128}")


def request_id_of(given: object) -> str:
    """Return the id that a caller has given, a new one if that is none: 1 to 128 characters of printable ASCII."""
    return given if isinstance(given, str) and _SHAPE.fullmatch(given) else uuid.uuid4().hex


def new_incident() -> str:
    """Return the id under which the log has more about a fault of ours."""
    return uuid.uuid4().hex[:12]
