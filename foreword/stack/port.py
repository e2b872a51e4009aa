"""The one port of a stack that its users choose."""

from __future__ import annotations

import socket

from foreword.errors import Unavailable
from foreword.stack.config import StackConfig


def check_port(config: StackConfig) -> None:
    """Raise Unavailable if the orchestrator's port cannot be bound, for somebody has it or it takes more rights."""
    if not config.port:
        return
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that have ended hold no port
            probe.bind((config.host.strip("[]"), config.port))
    except OSError as error:
        found = f"got {config.port}, which cannot be bound on {config.host} ({error.strerror})"
        raise Unavailable(f"port: {found}, wanted a free one; 0 takes any") from error
