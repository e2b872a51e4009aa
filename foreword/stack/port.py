"""The one port of a stack that its users choose."""

from __future__ import annotations

import socket

from foreword.errors import InvalidField
from foreword.stack.config import StackConfig


def check_port(config: StackConfig) -> None:
    """Raise InvalidField if the orchestrator's port cannot be bound, for somebody has it or it takes more rights."""
    if not config.port:
        return
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that have ended hold no port
            probe.bind((config.host.strip("[]"), config.port))
    except OSError as error:
        wanted = f"one that can be bound on {config.host} ({error.strerror}); 0 takes a free one"
        raise InvalidField("port", config.port, wanted) from error
