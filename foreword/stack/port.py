"""The ports of a stack that its users choose."""

from __future__ import annotations

import socket

from foreword.errors import Unavailable
from foreword.stack.config import StackConfig


def check_port(config: StackConfig) -> None:
    """Raise Unavailable for a port that cannot be bound: somebody has it, or it takes more rights."""
    for name, port in (("port", config.port), ("http_port", config.http_port)):
        if port:
            _check(name, config.host, port)


def _check(name: str, host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that have ended hold no port
            probe.bind((host.strip("[]"), port))
    except OSError as error:
        found = f"got {port}, which cannot be bound on {host} ({error.strerror})"
        raise Unavailable(f"{name}: {found}, wanted a free one; 0 takes any") from error
