"""Metrics over HTTP."""

import urllib.request

import pytest
from prometheus_client import Counter

from foreword.errors import Unavailable
from foreword.telemetry.metrics import new_registry, serve_metrics


def test_a_registry_is_served_and_nothing_else():
    registry = new_registry()
    Counter("foreword_tokens", "Tokens.", registry=registry).inc(3)
    server = serve_metrics(registry, 0)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics") as response:
            page = response.read().decode()
    finally:
        server.close()
    assert "foreword_tokens_total 3.0" in page
    assert "process_resident_memory_bytes" in page
    other = new_registry()
    assert "foreword_tokens" not in {family.name for family in other.collect()}


def test_a_port_in_use_is_named():
    server = serve_metrics(new_registry(), 0)
    try:
        with pytest.raises(Unavailable, match=f"metrics_port: got 127.0.0.1:{server.port} .*wanted a free port"):
            serve_metrics(new_registry(), server.port)
    finally:
        server.close()
