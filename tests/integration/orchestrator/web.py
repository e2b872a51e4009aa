"""Deployments whose orchestrator serves HTTP too, and clients of it."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from orchestrator.http.settings import HttpSettings
from tests.integration.orchestrator.services import Deployment, deployment


@dataclass(frozen=True)
class Web:
    """A deployment, and where its HTTP is."""

    served: Deployment
    url: str


@asynccontextmanager
async def web(folder: Path, *, http: dict[str, Any] | None = None, **settings: Any) -> AsyncIterator[Web]:
    """Run a target, a draft and an orchestrator with HTTP on a free port."""
    file = folder / "http"
    file.unlink(missing_ok=True)
    given = HttpSettings(**{"listen": "127.0.0.1:0", "address_file": file, **(http or {})})
    async with deployment(folder, http=given, **settings) as served:
        secure = given.pair is not None
        yield Web(served, f"http{'s' if secure else ''}://{file.read_text().strip()}")


def client_of(url: str, **options: Any) -> httpx2.AsyncClient:
    """Return a client that takes nothing from the environment and waits long."""
    return httpx2.AsyncClient(base_url=url, timeout=300, trust_env=False, **options)


def events_in(text: str) -> list[Any]:
    """Return what the data lines of a stream hold; [DONE] stays a text."""
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line.startswith("data: ")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def free_address() -> str:
    """Return an address that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"
