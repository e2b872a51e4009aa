"""The drafter inside a target that a setting names."""

from __future__ import annotations

from enum import Enum

from target_service.local.lookup import LocalLookup
from target_service.local.port import LocalDrafter


class LocalDrafterName(Enum):
    """Names of the drafters in settings."""

    LOOKUP = "lookup"
    NONE = "none"


def local_drafter(name: LocalDrafterName) -> LocalDrafter | None:
    """Return the drafter of this name, None for none."""
    return LocalLookup() if name is LocalDrafterName.LOOKUP else None
