"""transformers' assisted generation of the same prompts with the same pair, in a process of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Final, Self

from foreword.errors import Unavailable
from foreword.models.local import local_folder
from foreword.models.source import parse_source
from foreword.settings.environment import cache_folder
from loadtest.engine.worker import Environment, Worker
from loadtest.prompts import Prompt
from loadtest.speedup.plan import Plan

_MODULE: Final = "loadtest.speedup.assisted_worker"
_CARD: Final = "draft.json"
"""What the folder of a distilled draft has."""


@dataclass(frozen=True, slots=True)
class Assisted:
    """What transformers took for one text, from call to end, its prompt included."""

    tokens: int
    seconds: float


class Peer:
    """transformers with the draft as its assistant, or with prompt lookup where that is no distilled draft."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._exit = AsyncExitStack()
        self._worker: Worker | None = None
        self._assistant = ""

    @property
    def manner(self) -> str:
        """What assists."""
        return "the draft" if self._assistant else "prompt lookup"

    async def __aenter__(self) -> Self:
        threads = self._plan.threads or len(os.sched_getaffinity(0))
        folder = await asyncio.to_thread(local_folder, parse_source(self._plan.model), cache_folder())
        if (Path(self._plan.draft) / _CARD).is_file():
            made = Path(self._exit.enter_context(TemporaryDirectory())) / "assistant"
            await _export(self._plan.draft, made)
            self._assistant = str(made)
        variables = Environment.OURS.variables(threads)
        self._worker = await Worker.start(_MODULE, str(folder), str(threads), variables=variables)
        self._exit.push_async_callback(self._worker.close)
        return self

    async def write(self, prompt: Prompt) -> Assisted:
        """Return what a text took at temperature 0."""
        made = await self._ask(prompt, self._plan.tokens)
        return Assisted(made["tokens"], made["seconds"])

    async def warm(self, prompts: Sequence[Prompt]) -> None:
        """Let it load and run once."""
        await self._ask(prompts[0], 8)

    async def _ask(self, prompt: Prompt, tokens: int) -> dict[str, Any]:
        assert self._worker is not None
        chat = [asdict(message) for message in prompt.messages]
        dtype = self._plan.dtype.value
        return await self._worker.ask("write", dtype=dtype, assistant=self._assistant, chat=chat, tokens=tokens)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._exit.aclose()


async def _export(draft: str, folder: Path) -> None:
    command = (sys.executable, "-m", "foreword.cli", "distill", "export", draft, str(folder))
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
    if await process.wait() != 0:
        raise Unavailable(f"draft {draft}: cannot be written as a model for transformers; its own words are on stderr")
