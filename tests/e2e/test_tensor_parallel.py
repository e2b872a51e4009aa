"""A target of two ranks: the text of one, whatever is killed in mid-request, and nothing left behind at the end."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from signal import SIGKILL

import pytest
import pytest_asyncio

pytest.importorskip("ray")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from foreword.client import AsyncClient  # noqa: E402
from foreword.protocol.generation import Completion, Delta, TokenPrompt  # noqa: E402
from foreword.stack.stack import Stack  # noqa: E402
from tests.e2e.kit import QUICK  # noqa: E402
from tests.e2e.processes import Process, descendants, gone  # noqa: E402
from tests.unit.models.kit import write_model  # noqa: E402

pytestmark = [pytest.mark.full, pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]

PROMPT = (3, 1, 4, 1, 5)
VOCABULARY = 261
ENDS = (0, 2)
"""Ids that end a text, held back by min_tokens."""
LENGTH = 90
PATIENCE_S = 300
"""A group takes a while to start again, longer on a busy machine."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def wanted(folder: Path) -> tuple[int, ...]:
    """The greedy text of the whole model, by transformers' own passes."""
    module = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    tokens = list(PROMPT)
    with torch.inference_mode():
        for _ in range(LENGTH):
            scores = module(input_ids=torch.tensor([tokens])).logits[0, -1, :VOCABULARY]
            scores[list(ENDS)] = -torch.inf
            tokens.append(int(scores.argmax()))
    return tuple(tokens[len(PROMPT) :])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(folder: Path) -> AsyncIterator[Stack]:
    arguments = {
        "target": ("--tensor-parallel-size", "2"),
        "orchestrator": ("--target-patience-s", str(PATIENCE_S)),
    }
    # One that no other cluster here uses; its name is short because those of Ray's sockets have a limit.
    with tempfile.TemporaryDirectory(prefix="fw") as temporary, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", temporary)
        made = replace(QUICK, target=str(folder), draft="lookup", arguments=arguments, grace_s=10.0)
        async with Stack(made) as running:
            yield running
            started = descendants(os.getpid())
            assert ray_folders(temporary)
        assert await gone(started) == []
        assert ray_folders(temporary) == []


def ray_folders(temporary: str) -> list[Path]:
    return list(Path(temporary).glob("foreword-ray-*"))


def named(title: str) -> list[Process]:
    """Return this test's descendants whose command line holds `title`."""
    return [process for process in descendants(os.getpid()) if title in process.command]


def ranks() -> list[int]:
    return [process.pid for process in named("ray::Rank")]


def a_rank() -> int:
    return ranks()[-1]


def the_engine() -> int:
    """The process that started the cluster."""
    (head,) = named("tensor_parallel.head")
    return head.parent


async def generate(stack: Stack, *, gamma: int, hurt: Callable[[], int] | None = None) -> Completion:
    """Decode greedily; kill the process that `hurt` names when some tokens have come."""
    fields = {"temperature": 0.0, "max_tokens": LENGTH, "min_tokens": LENGTH, "gamma": gamma}
    async with (
        AsyncClient(stack.address) as client,
        client.stream(TokenPrompt(PROMPT), **fields) as stream,  # type: ignore[arg-type]
    ):
        seen = 0
        async for event in stream:
            if isinstance(event, Delta):
                before, seen = seen, seen + len(event.ids)
                if hurt is not None and before < 20 <= seen:
                    os.kill(hurt(), SIGKILL)
        return await stream.completion()


@pytest.mark.parametrize("gamma", [0, 4])
async def test_two_ranks_say_what_the_whole_model_says(stack: Stack, wanted: tuple[int, ...], gamma: int) -> None:
    assert len(ranks()) == 2
    assert (await generate(stack, gamma=gamma)).ids == wanted


@pytest.mark.parametrize(("hurt", "gamma"), [(a_rank, 0), (a_rank, 4), (the_engine, 4)])
async def test_what_is_killed_loses_and_repeats_nothing(
    stack: Stack, wanted: tuple[int, ...], hurt: Callable[[], int], gamma: int
) -> None:
    before = set(ranks())
    completion = await generate(stack, gamma=gamma, hurt=hurt)
    assert completion.ids == wanted
    assert completion.usage.targets_used == 2
    assert len(ranks()) == 2
    assert not before & set(ranks())
    assert len(named("tensor_parallel.head")) == 1
