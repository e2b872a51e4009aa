"""A target in deterministic mode behind an orchestrator: the same bits at any γ, in company, after preemption."""

from __future__ import annotations

import asyncio
import socket
import urllib.request
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

pytest.importorskip("torch")

from draft_service.settings import DrafterChoice
from foreword.client import AsyncClient
from foreword.models.dtype import Dtype
from foreword.protocol.generation import Choice, TokenPrompt
from tests.integration.orchestrator.services import start_draft, start_orchestrator, start_target
from tests.unit.models.kit import write_model

pytestmark = pytest.mark.asyncio

PROMPTS = [TokenPrompt(tuple((5 + 7 * n + i * (n + 3)) % 256 for i in range(40))) for n in range(6)]
LENGTH = 60
ROOM = 256
"""Tokens of the cache: two of these texts and a half."""


async def test_greedy_texts_have_the_same_bits_at_any_gamma_in_company_and_after_preemption(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model, metrics_port = str(write_model(tmp_path / "model")), free_port()
    async with AsyncExitStack() as stack:
        target = start_target(
            tmp_path,
            model=model,
            deterministic=True,
            dtype=Dtype.BFLOAT16,
            max_tokens=ROOM,
            metrics_port=metrics_port,
        )
        stack.push_async_callback(target.stop)
        draft = start_draft(tmp_path, drafter=DrafterChoice.LOOKUP, model="")
        stack.push_async_callback(draft.stop)
        for service in (target, draft):
            await service.ready()
        # Kernels that depend on the batch in spite of it are not found on every machine: the engine says what it made.
        assert '"deterministic": true, "event": "model runs"' in capfd.readouterr().err
        orchestrator = start_orchestrator(tmp_path, [target], [draft])
        stack.push_async_callback(orchestrator.stop)
        await orchestrator.ready()
        client = await stack.enter_async_context(AsyncClient(orchestrator.address))

        alone = [await said(client, prompt, gamma=0) for prompt in PROMPTS]
        assert [await said(client, prompt, gamma=4) for prompt in PROMPTS] == alone
        seen = 0.0
        for gamma in (0, 4):
            assert await asyncio.gather(*(said(client, prompt, gamma=gamma) for prompt in PROMPTS)) == alone
            seen = await preempted_since(seen, metrics_port)


async def said(client: AsyncClient, prompt: TokenPrompt, *, gamma: int) -> tuple[object, ...]:
    """Return the ids of a greedy text, and what tells the bits of its logits: log-probabilities at temperature 1."""
    done = await client.generate(
        prompt, temperature=0.0, max_tokens=LENGTH, ignore_eos=True, gamma=gamma, top_logprobs=3
    )
    assert len(done.ids) == LENGTH
    assert (done.usage.accepted_tokens > 0) == (gamma > 0)
    choice: Choice = done.choices[0]
    assert choice.logprobs is not None
    return done.ids, choice.logprobs.chosen, choice.logprobs.top


async def preempted_since(seen: float, metrics_port: int) -> float:
    """Return how often a session of the target had to give up its pages, once that is more than `seen`."""
    async with asyncio.timeout(120):
        while True:
            text = await asyncio.to_thread(_read, f"http://127.0.0.1:{metrics_port}/metrics")
            samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
            times = sum(s.value for s in samples if s.name.endswith("_total") and s.labels.get("event") == "preempted")
            if times > seen:
                return times
            await asyncio.sleep(0.1)  # another process counts, and says so once a second


def _read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as response:
        return str(response.read().decode())


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])
