"""The processes of a round with nothing in them: sleeps, socket pairs and gRPC streams, no Foreword.

`python -m loadtest.overhead.bare_chain target MS` prints the port it serves; `… draft PORT MS STEPS ROUNDS` runs that
many rounds with it and prints their median times. Each of the two starts its engine as a further process, as services
do. A round is: the draft's engine sleeps for its steps; a block goes through both gRPC processes to the target's
engine, which sleeps for its step; a verdict goes back the same way.
"""

from __future__ import annotations

import asyncio
import json
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from foreword.settings.environment import use_direct_poller

_SLEPT = struct.Struct("<d")
_PAYLOAD = bytes(200)
_WARM_UP = 10


def target_engine(fd: int, step_s: float) -> None:
    """Answer every block after one step, with how long that took."""
    with socket.socket(fileno=fd) as pipe:
        while pipe.recv(1 << 16):
            pipe.sendall(_SLEPT.pack(_slept(step_s)) + _PAYLOAD)


def draft_engine(fd: int, step_s: float, steps: int, rounds: int) -> None:
    """Make blocks, and report the median round with the median of what was slept in it, in ms."""
    times, sleeps = [], []
    with socket.socket(fileno=fd) as pipe:
        before = time.perf_counter()
        for _ in range(rounds + _WARM_UP):
            slept = sum(_slept(step_s) for _ in range(steps))
            pipe.sendall(_PAYLOAD)
            (target_s,) = _SLEPT.unpack_from(pipe.recv(1 << 16))
            now = time.perf_counter()
            times.append(1e3 * (now - before))
            sleeps.append(1e3 * (slept + target_s))
            before = now
        report = {"round_ms": statistics.median(times[_WARM_UP:]), "steps_ms": statistics.median(sleeps[_WARM_UP:])}
        pipe.sendall(b"!" + json.dumps(report).encode())


async def target(step_ms: str) -> None:
    """Serve one draft, until killed."""
    import grpc
    import grpc.aio

    async def push_blocks(_: Any, context: Any) -> None:
        verdicts: asyncio.Queue[bytes] = asyncio.Queue()
        engine = await _engine(verdicts.put_nowait, "target-engine", step_ms)
        writer = asyncio.create_task(_write_all(context.write, verdicts))
        while isinstance(block := await context.read(), bytes):
            engine.write(block)
        writer.cancel()

    server = grpc.aio.server()
    handlers: Any = {"PushBlocks": grpc.stream_stream_rpc_method_handler(push_blocks)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bare.Target", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    await server.wait_for_termination()


async def draft(port: str, *engine_arguments: str) -> None:
    """Run the rounds and print their times."""
    import grpc.aio

    blocks: asyncio.Queue[bytes] = asyncio.Queue()
    engine = await _engine(blocks.put_nowait, "draft-engine", *engine_arguments)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call: Any = channel.stream_stream("/bare.Target/PushBlocks")()
        reader = asyncio.create_task(_read_all(call, engine.write))
        while not (block := await blocks.get()).startswith(b"!"):
            await call.write(block)
        sys.stdout.write(block[1:].decode())
        reader.cancel()


async def _engine(received: Callable[[bytes], None], role: str, *arguments: str) -> asyncio.Transport:
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-m", __spec__.name, role, str(theirs.fileno()), *arguments]
        subprocess.Popen(command, pass_fds=(theirs.fileno(),))  # noqa: ASYNC220 - once, before the first round
    transport, _ = await asyncio.get_running_loop().create_connection(lambda: _Pipe(received), sock=ours)
    return transport


async def _write_all(write: Callable[[bytes], Any], messages: asyncio.Queue[bytes]) -> None:
    while True:
        await write(await messages.get())


async def _read_all(call: Any, take: Callable[[bytes], None]) -> None:
    while isinstance(message := await call.read(), bytes):
        take(message)


class _Pipe(asyncio.Protocol):
    def __init__(self, received: Callable[[bytes], None]) -> None:
        self._received = received

    def data_received(self, data: bytes) -> None:
        self._received(data)


def _slept(seconds: float) -> float:
    began = time.perf_counter()
    time.sleep(seconds)
    return time.perf_counter() - began


def main(role: str, *arguments: str) -> None:
    """Run one of the four processes."""
    use_direct_poller()
    match role, *arguments:
        case "target-engine", fd, step_ms:
            target_engine(int(fd), float(step_ms) / 1e3)
        case "draft-engine", fd, step_ms, steps, rounds:
            draft_engine(int(fd), float(step_ms) / 1e3, int(steps), int(rounds))
        case "target", step_ms:
            asyncio.run(target(step_ms))
        case "draft", *rest:
            asyncio.run(draft(*rest))


if __name__ == "__main__":
    main(*sys.argv[1:])
