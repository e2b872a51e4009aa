"""The metrics of a service that a bench has started, by a port that was free."""

from __future__ import annotations

import socket
import urllib.request


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def scraped(port: int) -> str:
    """Return what a metrics port of this machine says now, in Prometheus' text form."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10.0) as answer:
        text: str = answer.read().decode()
    return text
