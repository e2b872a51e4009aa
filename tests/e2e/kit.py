"""Stacks that these tests share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from foreword.client import AsyncClient
from foreword.models.local import cached_folder
from foreword.models.source import parse_source
from foreword.protocol.generation import GenerateRequest
from foreword.settings.environment import cache_folder
from foreword.stack.config import StackConfig

QUICK = StackConfig(backoff_s=0.1, longest_backoff_s=0.1, grace_s=2.0)


def embedded_folder() -> Path:
    """Return the folder of the embedded model; skip the test where its weights, which tests do not fetch, are not."""
    found = cached_folder(parse_source("embedded"), cache_folder())
    if found is None:
        pytest.skip("the embedded model has not been fetched: foreword models fetch")
    return found


def synthetic_stack(
    *, vocabulary: int = 64, target_ms: float = 0.0, draft_ms: float = 0.0, context: int = 2048, **changes: object
) -> StackConfig:
    """Return a synthetic pair with agreement 0.8."""
    model = f"synthetic:vocab={vocabulary},agreement=0.8,seed=1,context={context}"
    return replace(QUICK, target=f"{model},step_ms={target_ms}", draft=f"{model},step_ms={draft_ms}", **changes)


async def drafted(client: AsyncClient, request: GenerateRequest, *, tries: int = 300) -> None:
    """Return when drafts are at work: ask until candidates were kept."""
    for _ in range(tries):
        if (await client.generate(request)).usage.accepted_tokens:
            return
    raise AssertionError(f"no candidate was kept in {tries} requests")
