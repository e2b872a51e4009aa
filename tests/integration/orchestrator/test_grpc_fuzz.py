"""Requests over gRPC, random or right ones with bytes changed: no INTERNAL, no UNKNOWN, no session left open."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import grpc
import grpc.aio
import pytest

from foreword.client import AsyncClient
from foreword.protocol.generation import TokenPrompt
from foreword.v1 import common_pb2, generation_pb2
from foreword.wire.methods import GENERATION_SERVICE
from loadtest.exactness.many import at_most
from tests.integration.orchestrator.services import deployment
from tests.integration.orchestrator.test_service import all_closed

METHODS = ("Generate", "Abort", "GetInfo", "GetActivity")
FAULTS = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.DATA_LOSS}
"""What only a fault of the server's gives."""
LONGEST_S = 60.0
NUMBERS = (0, 1, 2, 3, 7, 16, 255, 2**31 - 1, 2**32 - 1)
FLOATS = (0.0, -0.0, 1.0, 0.5, -1.0, 1e-300, 1e300, float("inf"), float("-inf"), float("nan"), 0.999999)
TEXTS = ("", "w1", "w3 w1 w4", "\0", "é" * 20, "😀", "\u202e", "x" * 5000)


def packed(random_: random.Random, most: int) -> bytes:
    ids = [random_.choice([random_.randrange(64), random_.choice(NUMBERS)]) for _ in range(random_.randrange(most))]
    return b"".join(token.to_bytes(4, "little") for token in ids) + bytes(random_.choice((0, 0, 0, 1, 3)))


def law(random_: random.Random) -> common_pb2.LawParameters:
    """Return a law of which some fields are set, often out of range."""
    made = common_pb2.LawParameters(temperature=random_.choice(FLOATS))
    for name in ("top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty"):
        if random_.random() < 0.3:
            setattr(made, name, random_.choice(FLOATS))
    for name in ("top_k", "min_tokens"):
        if random_.random() < 0.2:
            setattr(made, name, random_.choice(NUMBERS))
    for name in ("bias_ids", "bias_values", "banned_ids", "stop_ids"):
        if random_.random() < 0.2:
            setattr(made, name, packed(random_, 5))
    return made


def request(random_: random.Random) -> generation_pb2.GenerateRequest:
    """Return a request that a client might send, or nearly."""
    made = generation_pb2.GenerateRequest(max_tokens=random_.choice((1, 2, 5, 9, 2**32 - 1)))
    match random_.randrange(4):
        case 0:
            made.text = random_.choice(TEXTS)
        case 1:
            made.tokens.ids = packed(random_, 40)
        case 2:
            made.messages.messages.add(role=random_.choice(("user", "system", "")), content=random_.choice(TEXTS))
    if random_.random() < 0.7:
        made.law.CopyFrom(law(random_))
    if random_.random() < 0.4:
        made.stop.extend(random_.choices(TEXTS, k=random_.randrange(1, 4)))
    for name in ("seed", "n", "top_logprobs"):
        if random_.random() < 0.3:
            setattr(made, name, random_.choice(NUMBERS[:6]))
    for name in ("include_stop", "ignore_eos", "echo", "one_token_per_event"):
        setattr(made, name, random_.random() < 0.3)
    if random_.random() < 0.5:
        made.speculation.gamma = random_.choice(NUMBERS[:6])
        made.speculation.rule = random_.randrange(4)
    if random_.random() < 0.1:
        made.resume = packed(random_, 20)
    return made


def mutated(random_: random.Random, data: bytes) -> bytes:
    """Return the bytes with some changed, taken out, doubled or put in."""
    changed = bytearray(data)
    for _ in range(random_.randrange(1, 5)):
        at = random_.randrange(len(changed) + 1)
        match random_.randrange(4):
            case 0 if at < len(changed):
                changed[at] = random_.randrange(256)
            case 1:
                del changed[at : at + random_.randrange(1, 8)]
            case 2:
                changed[at:at] = random_.randbytes(random_.randrange(1, 8))
            case 3:
                changed[at:at] = changed[at : at + random_.randrange(1, 30)]
    return bytes(changed)


def call(random_: random.Random) -> tuple[str, bytes]:
    """Return a method and what to send it."""
    method = random_.choices(METHODS, (30, 2, 1, 1))[0]
    if random_.random() < 0.1:
        return method, random_.randbytes(random_.randrange(60))
    data: bytes = request(random_).SerializeToString()
    return method, mutated(random_, data) if random_.random() < 0.5 else data


async def answered(channel: grpc.aio.Channel, method: str, data: bytes) -> grpc.StatusCode:
    """Return how a call ended."""
    path = f"/{GENERATION_SERVICE}/{method}"
    try:
        if method == "Generate":
            async for _ in channel.unary_stream(path)(data, timeout=LONGEST_S):
                pass
        else:
            await channel.unary_unary(path)(data, timeout=LONGEST_S)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@pytest.mark.parametrize("calls", [300, pytest.param(5_000, marks=pytest.mark.full)])
async def test_no_fault_and_no_session_left(tmp_path: Path, calls: int) -> None:
    random_ = random.Random(calls)
    async with deployment(tmp_path, trust=("all",)) as served, grpc.aio.insecure_channel(served.address) as channel:

        async def one(number: int) -> grpc.StatusCode:
            method, data = call(random_)
            code = await answered(channel, method, data)
            assert code not in FAULTS, f"call {number}: {method} of {data.hex()} ended with {code}"
            return code

        codes = Counter(await at_most(8, range(calls), one))
        await all_closed(served)
        assert codes[grpc.StatusCode.OK] > calls / 20
        assert codes[grpc.StatusCode.INVALID_ARGUMENT] > calls / 20
        async with AsyncClient(served.address) as client:
            assert len((await client.generate(TokenPrompt((3, 1, 4)), max_tokens=9)).ids) == 9
