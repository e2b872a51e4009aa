"""Processes that are measured without services: transformers in two environments, and the runner alone."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Final, Self

from foreword.errors import Unavailable
from foreword.settings.environment import engine_environment

TRANSFORMERS: Final = "loadtest.engine.transformers_worker"
RUNNER: Final = "loadtest.engine.runner_worker"
_LONGEST_LINE: Final = 1 << 24
_END_S: Final = 10.0


class Environment(Enum):
    """What the threads of a process of transformers do while they wait for each other.

    It runs in both, because a gain of ours could be that of the environment; bars are held against the better one.
    """

    PASSIVE = "transformers"
    """`OMP_WAIT_POLICY=passive` and nothing else: they sleep."""
    OURS = "transformers, our env."
    """As our engines are started: they look for some 50 µs before they sleep."""

    def variables(self, threads: int) -> dict[str, str]:
        """Return the environment of such a process."""
        found = engine_environment(threads, {"HF_HUB_OFFLINE": "1"})
        if self is Environment.PASSIVE:
            found["OMP_WAIT_POLICY"] = "passive"
            found.pop("GOMP_SPINCOUNT", None)
        return found


class Worker:
    """A process that answers questions in JSON lines, one at a time; `module` is run with `arguments`."""

    def __init__(self, process: asyncio.subprocess.Process, name: str) -> None:
        self._process = process
        self._name = name

    @classmethod
    async def start(cls, module: str, *arguments: str, variables: Mapping[str, str]) -> Self:
        """Start it; it loads what it needs when it is first asked."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", module, *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=variables,
            limit=_LONGEST_LINE,
        )
        return cls(process, module.rpartition(".")[2])

    async def ask(self, kind: str, **question: Any) -> dict[str, Any]:
        """Return the answer; raises Unavailable for an error there, and if the process ended instead."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"kind": kind, **question}).encode() + b"\n")
            await self._process.stdin.drain()
            line = await self._process.stdout.readline()
        except ConnectionError:
            line = b""
        if not line:
            raise Unavailable(f"{self._name}: got no answer about {kind}; its own words are on stderr")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise Unavailable(f"{self._name}: {answer['error']}")
        return answer

    async def close(self) -> None:
        """Let it end, by force if it is at work."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), _END_S)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


async def start_transformers(folder: Path, threads: int, environment: Environment) -> Worker:
    """Start transformers on the model in a folder."""
    return await Worker.start(TRANSFORMERS, str(folder), str(threads), variables=environment.variables(threads))


async def start_runner(model: str, threads: int, cache: Path) -> Worker:
    """Start the runner of a model, as an engine would be."""
    variables = engine_environment(threads, {"HF_HUB_OFFLINE": "1"}, cache=cache)
    return await Worker.start(RUNNER, model, str(threads), str(cache), variables=variables)
