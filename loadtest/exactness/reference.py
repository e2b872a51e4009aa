"""What the services should write, by transformers in a process of its own, with greedy texts kept between runs."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from foreword.errors import Unavailable
from foreword.laws.parameters import LawParameters
from foreword.models.identity import weights_digest
from foreword.protocol.generation import Message
from foreword.protocol.messages import Tokens
from foreword.settings.environment import engine_environment

_WORKER: Final = "loadtest.exactness.transformers_worker"
_LONGEST_LINE: Final = 1 << 24
_BATCH: Final = 10
"""Conversations that `generate` decodes side by side."""


@dataclass(frozen=True, slots=True)
class GreedyText:
    """transformers' own greedy text."""

    prompt: Tokens
    ids: Tokens
    margins: tuple[float, ...]
    """By how much the largest logit leads the second, at each output position."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What is drawn after every prefix of a text with the noise of its seed."""

    ids: Tokens
    margins: tuple[float | None, ...]
    """By how much the best log p + noise leads the second, in nats; None where only one token can come."""


class Transformers:
    """The other process, as a context manager; it starts when it is first asked, and is asked one question at a time.

    `folder` holds the model. Greedy texts are kept in `cache`, by the digest of the weights and the versions of torch
    and transformers; a shorter text is the start of a longer one, so one entry serves every length up to its own.
    """

    def __init__(self, folder: Path, cache: Path, *, threads: int = 2) -> None:
        self._folder = folder
        self._threads = threads
        self._process: asyncio.subprocess.Process | None = None
        self._one_at_a_time = asyncio.Lock()
        versions = f"{version('torch')} {version('transformers')}"
        name = hashlib.sha256(f"{weights_digest(folder, cache)} {versions} float32 eager".encode()).hexdigest()[:16]
        self._kept = cache / "references" / f"greedy-{name}.jsonl"

    async def greedy(self, conversations: Sequence[Sequence[Message]], max_tokens: int) -> list[GreedyText]:
        """Return the greedy text of `generate` for each conversation, at most `max_tokens` long."""
        asked = [[asdict(message) for message in messages] for messages in conversations]
        keys = [hashlib.sha256(json.dumps(turns).encode()).hexdigest() for turns in asked]
        known = self._kept_texts(max_tokens)
        missing = [(key, turns) for key, turns in zip(keys, asked, strict=True) if key not in known]
        for begin in range(0, len(missing), _BATCH):
            batch = missing[begin : begin + _BATCH]
            question = {"kind": "greedy", "conversations": [turns for _, turns in batch], "max_tokens": max_tokens}
            texts = (await self._ask(question))["texts"]
            known |= {key: text for (key, _), text in zip(batch, texts, strict=True)}
            self._keep([{"key": key, "max_tokens": max_tokens, **known[key]} for key, _ in batch])
        return [_cut(known[key], max_tokens) for key in keys]

    async def replay(self, prompt: Tokens, output: Tokens, *, law: LawParameters, seed: int) -> Replay:
        """Return what `match` draws after every prefix of `output`; one forward pass over the whole text."""
        facts = {name: value for name, value in asdict(law).items() if value is not None}
        question = {"kind": "replay", "prompt": prompt, "output": output, "law": facts, "seed": seed}
        found = await self._ask(question)
        return Replay(tuple(found["ids"]), tuple(found["margins"]))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            await self._process.wait()

    async def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        async with self._one_at_a_time:
            if self._process is None:
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", _WORKER, str(self._folder), str(self._threads)),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    env=engine_environment(self._threads, {"HF_HUB_OFFLINE": "1"}),
                    limit=_LONGEST_LINE,
                )
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            await self._process.stdin.drain()
            line = await self._process.stdout.readline()
        if not line:
            raise Unavailable("transformers: got no answer, wanted the text; its own words are on stderr")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise Unavailable(f"transformers: {answer['error']}")
        return answer

    def _kept_texts(self, max_tokens: int) -> dict[str, dict[str, Any]]:
        if not self._kept.is_file():
            return {}
        entries = [json.loads(line) for line in self._kept.read_text(encoding="utf-8").splitlines()]
        return {entry["key"]: entry for entry in entries if entry["max_tokens"] >= max_tokens}

    def _keep(self, entries: list[dict[str, Any]]) -> None:
        self._kept.parent.mkdir(parents=True, exist_ok=True)
        with self._kept.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(entry) + "\n" for entry in entries)


def _cut(found: dict[str, Any], max_tokens: int) -> GreedyText:
    return GreedyText(tuple(found["prompt"]), tuple(found["ids"][:max_tokens]), tuple(found["margins"][:max_tokens]))
