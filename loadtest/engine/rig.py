"""Everything that is measured, started when it is first wanted and stopped together."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Self

from foreword.client import AsyncClient
from foreword.models.dtype import Dtype
from foreword.models.local import local_folder
from foreword.models.source import parse_source
from foreword.protocol.messages import Tokens
from foreword.settings.environment import cache_folder
from foreword.stack.stack import Stack
from loadtest.bench.scrape import free_port
from loadtest.engine.plan import LONGEST_PROMPT, Deployment, Plan
from loadtest.engine.rates import Output
from loadtest.engine.sessions import Services
from loadtest.engine.worker import Environment, Worker, start_runner, start_transformers
from loadtest.prompts import dev_prompts


@dataclass(frozen=True, slots=True)
class Prompts:
    """Token ids that all arms get alike."""

    chat: Tokens
    """One chat, by the model's template."""
    short: tuple[Tokens, ...]
    """The first words of one chat for each session of the batch."""
    text: Tokens
    """All chats one after the other, for what has to be long."""

    def long(self, tokens: int, number: int) -> Tokens:
        """Return a long text; other numbers begin elsewhere, and so share nothing."""
        first = 97 * number % len(self.text)
        doubled = self.text[first:] + self.text * (1 + tokens // len(self.text))
        return doubled[:tokens]


class Rig:
    """Services, processes of transformers and the runner, as a context manager."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._cache = cache_folder()
        self._folder = self._cache
        self._exit = AsyncExitStack()
        self._services: dict[Deployment, Services] = {}
        self._peers: dict[Environment, Worker] = {}
        self._runner: Worker | None = None
        self._prompts: Prompts | None = None

    async def __aenter__(self) -> Self:
        """Fetch the model: workers ask no hub, and what it lacks is said before anything starts."""
        self._folder = await asyncio.to_thread(local_folder, parse_source(self._plan.model), self._cache)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._exit.aclose()

    async def services(self, deployment: Deployment) -> Services:
        """Return running services."""
        if deployment not in self._services:
            port = free_port()
            stack = await self._exit.enter_async_context(Stack(self._plan.stack(deployment, port)))
            client = await self._exit.enter_async_context(AsyncClient(stack.address))
            self._services[deployment] = Services(client, port)
        return self._services[deployment]

    async def peer(self, environment: Environment) -> Worker:
        """Return transformers in an environment."""
        if environment not in self._peers:
            started = await start_transformers(self._folder, self._plan.threads, environment)
            self._exit.push_async_callback(started.close)
            self._peers[environment] = started
        return self._peers[environment]

    async def runner(self) -> Worker:
        """Return the runner without services."""
        if self._runner is None:
            self._runner = await start_runner(self._plan.model, self._plan.threads, self._cache)
            self._exit.push_async_callback(self._runner.close)
        return self._runner

    async def prompts(self) -> Prompts:
        """Return the prompts, by the tokenizer of transformers."""
        if self._prompts is None:
            peer = await self.peer(Environment.OURS)
            chats = self._plan.chats or dev_prompts()
            texts = [" ".join(message.content for message in chat.messages) for chat in chats]
            chat = [asdict(message) for message in chats[0].messages]
            made = await peer.ask("tokenize", chat=chat, texts=texts)
            short = tuple(made["texts"][n % len(texts)][: self._plan.batch_prompt] for n in range(self._plan.sessions))
            long = [token for text in made["texts"] for token in text]
            enough = -(-LONGEST_PROMPT // len(long))
            self._prompts = Prompts(tuple(made["chat"]), short, tuple(long * enough))
        return self._prompts

    async def written(
        self, kind: str, environment: Environment, dtype: Dtype, prompts: list[Tokens], tokens: int
    ) -> list[Output]:
        """Return what transformers wrote, `generate` or `continuous`."""
        peer = await self.peer(environment)
        made = await peer.ask(kind, dtype=dtype.value, prompts=prompts, tokens=tokens)
        return [_output(made, number) for number in range(len(prompts))]


def _output(made: dict[str, Any], number: int) -> Output:
    return Output(made["seconds"], tuple(made["arrivals"][number]), tuple(made["ids"][number]))
