"""What a stack reports of its services."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum


class ServiceState(Enum):
    """What has happened to a service."""

    STARTING = "starting"
    SERVING = "serving"
    """Detail is its address."""
    EXITED = "exited"
    """It ended by itself; detail says how."""
    RESTARTING = "restarting"
    """Detail says after what pause."""
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class ServiceEvent:
    """One change of one service."""

    service: str
    state: ServiceState
    detail: str = ""


OnEvent = Callable[[ServiceEvent], None]
OnLog = Callable[[str, str], None]
"""Gets the name of a service and a line that it wrote to stdout or stderr."""
