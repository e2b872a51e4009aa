"""Prometheus metrics: one registry a process, made by the composition root and handed down."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Thread
from typing import Any

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, start_http_server

from foreword.errors import Unavailable


def new_registry() -> CollectorRegistry:
    """Return a registry that has this process's memory, CPU, descriptors and collections already."""
    registry = CollectorRegistry(auto_describe=True)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


@dataclass(frozen=True, slots=True)
class MetricsServer:
    """A running HTTP server for scrapes."""

    port: int
    _server: Any
    _thread: Thread

    def close(self) -> None:
        """Stop it; returns when its thread has ended."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def serve_metrics(registry: CollectorRegistry, port: int, host: str = "127.0.0.1") -> MetricsServer:
    """Serve the registry over HTTP from a thread of its own; port 0 takes a free one. Raises Unavailable."""
    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise Unavailable(f"metrics_port: got {host}:{port} ({error.strerror}), wanted a free port") from error
    return MetricsServer(server.server_port, server, thread)
