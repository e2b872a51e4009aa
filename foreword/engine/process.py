"""The service's side: starts the engine process, exchanges batches with it, notices its death, stops it."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from foreword.engine.framing import Kind, Start, Unpacker, pack
from foreword.engine.last_line import LastLine
from foreword.errors import EngineFailure, ForewordError

_log = structlog.stdlib.get_logger(__name__)

_EXIT_WAIT_S = 5.0
"""Time that an engine gets to be gone after its socket has ended."""
_DRAIN_S = 1.0
"""Time to read what a dead engine left in its socket and stderr."""
_STDERR_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How an engine process is started and held."""

    environment: Mapping[str, str]
    """Whole environment of the process; see `foreword.settings.environment.engine_environment`."""
    start_timeout_s: float = 600.0
    """Time until it must be ready: loading weights is part of it."""
    queue_bytes: int = 256 << 20
    """Bytes that may wait for an engine that does not read before it is given up."""
    name: str = "engine"


class EngineProcess:
    """A running engine. `send` never blocks; batches from it go to `on_batch`, in the event loop.

    `on_exit` is called once, when an engine that was started is gone: with None after `stop`, else with what happened.
    The thread that runs the event loop must outlive the engine: the kernel kills it when that thread ends.
    """

    def __init__(
        self, options: EngineOptions, on_batch: Callable[[Any], None], on_exit: Callable[[ForewordError | None], None]
    ) -> None:
        self.info: Any = None
        """What the engine said about itself when it was ready."""
        self.pid = 0
        self._options = options
        self._on_batch = on_batch
        self._on_exit = on_exit
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._exited: asyncio.Future[ForewordError | None] = asyncio.get_running_loop().create_future()
        self._failure: ForewordError | None = None
        self._last_line = LastLine()
        self._stopping = False
        self._transport: asyncio.Transport | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._socket_over = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def start(
        cls,
        entry: str,
        settings: object,
        *,
        options: EngineOptions,
        on_batch: Callable[[Any], None],
        on_exit: Callable[[ForewordError | None], None],
    ) -> EngineProcess:
        """Start an engine and return it when it is ready.

        `entry` is `module:function`; it is called in the new process with an EngineChannel and `settings`. Raises the
        error that the engine started with, or EngineFailure if it died or was not ready in time; nothing is left then.
        """
        engine = cls(options, on_batch, on_exit)
        try:
            await engine._spawn(entry, settings)
            await asyncio.wait_for(asyncio.shield(engine._ready), options.start_timeout_s)
        except TimeoutError:
            await engine._kill()
            raise EngineFailure(
                f"{options.name}: not ready in {options.start_timeout_s:g} s (setting start_timeout_s)"
            ) from None
        except BaseException:
            await engine._kill()
            raise
        return engine

    @property
    def is_running(self) -> bool:
        """Whether the engine can be sent work."""
        return self._transport is not None and not self._exited.done() and not self._stopping

    def send(self, batch: object) -> None:
        """Queue a batch for the engine; one that is gone or stopping gets nothing, `on_exit` tells."""
        if not self.is_running or self._transport is None:
            return
        self._transport.write(pack(Kind.BATCH, batch))
        waiting = self._transport.get_write_buffer_size()
        if waiting > self._options.queue_bytes:
            name, most = self._options.name, self._options.queue_bytes
            self._fail(EngineFailure(f"{name}: got {waiting} bytes waiting, wanted at most {most}; it does not read"))

    async def wait_exited(self) -> ForewordError | None:
        """Return when the process is gone: None after `stop`, else what happened."""
        return await asyncio.shield(self._exited)

    async def stop(self, grace_s: float = 5.0) -> None:
        """Ask the engine to end, kill it after the grace time, return when it is gone."""
        self._stopping = True
        if self._transport is not None and not self._exited.done():
            self._transport.write(pack(Kind.STOP))
        try:
            await asyncio.wait_for(asyncio.shield(self._exited), grace_s)
        except TimeoutError:
            await self._kill()

    async def _spawn(self, entry: str, settings: object) -> None:
        first = pack(Kind.START, Start(entry, settings))  # before there is a process that would have to be ended
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:  # for want of descriptors, say: whoever restarts engines tries again
            raise EngineFailure(f"{self._options.name}: cannot be started ({error.strerror})") from error
        try:
            with theirs:
                await self._launch(theirs.fileno())
            loop = asyncio.get_running_loop()
            self._transport, _ = await loop.create_connection(lambda: _Protocol(self), sock=ours)
        except BaseException:
            ours.close()
            raise
        self._transport.write(first)

    async def _launch(self, fd: int) -> None:
        arguments = [sys.executable, "-m", "foreword.engine", str(fd), str(os.getpid())]
        try:
            process = await asyncio.create_subprocess_exec(
                *arguments,
                pass_fds=(fd,),
                env=dict(self._options.environment),
                stdin=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise EngineFailure(f"{self._options.name}: cannot be started ({error.strerror})") from error
        self._process, self.pid = process, process.pid
        stderr = asyncio.create_task(self._copy_stderr(process))
        self._tasks = [stderr, asyncio.create_task(self._reap(process, stderr))]

    def _message(self, kind: Kind, value: Any) -> None:
        if kind is Kind.BATCH:
            self._on_batch(value)
        elif kind is Kind.READY:
            self.info = value
            if not self._ready.done():
                self._ready.set_result(None)
        elif kind is Kind.FAILED:
            self._failure = value

    def _fail(self, error: ForewordError) -> None:
        """Give the engine up for this reason."""
        self._failure = self._failure or error
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    def _socket_ended(self) -> None:
        """Have an engine that closed its socket and does not end killed."""
        self._socket_over.set()
        loop = asyncio.get_running_loop()
        if not self._exited.done():
            loop.call_later(_EXIT_WAIT_S, self._fail, EngineFailure(f"{self._options.name}: it closed its socket"))

    async def _copy_stderr(self, process: asyncio.subprocess.Process) -> None:
        """Pass the engine's stderr on and remember what it said last."""
        assert process.stderr is not None
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while chunk := await process.stderr.read(_STDERR_CHUNK):
            text = decoder.decode(chunk)
            sys.stderr.write(text)
            sys.stderr.flush()
            self._last_line.feed(text)

    async def _reap(self, process: asyncio.subprocess.Process, stderr: asyncio.Task[None]) -> None:
        status = await process.wait()
        with contextlib.suppress(TimeoutError):  # what it left behind is read first, unless a grandchild holds on to it
            await asyncio.wait_for(
                asyncio.gather(asyncio.shield(stderr), self._socket_over.wait(), return_exceptions=True), _DRAIN_S
            )
        stderr.cancel()
        error = None if self._stopping else self._failure or self._death(status)
        if self._transport is not None:
            self._transport.close()
        self._exited.set_result(error)
        if not self._ready.done():
            self._ready.set_exception(error or EngineFailure(f"{self._options.name}: stopped before it was ready"))
            self._ready.exception()  # retrieved here, for nobody may be waiting
            return
        self._on_exit(error)

    def _death(self, status: int) -> EngineFailure:
        how = f"killed by signal {-status}" if status < 0 else f"ended with exit status {status}"
        last = f"; its last line: {self._last_line.text}" if self._last_line.text else ""
        return EngineFailure(f"{self._options.name}: {how}{last}")

    async def _kill(self) -> None:
        if self._process is None:
            return
        if self._process.returncode is None:
            self._process.kill()
        await asyncio.shield(self._exited)


class _Protocol(asyncio.Protocol):
    """Feeds what the socket brings into the engine's messages."""

    def __init__(self, engine: EngineProcess) -> None:
        self._engine = engine
        self._unpacker = Unpacker()

    def data_received(self, data: bytes) -> None:
        try:
            for kind, value in self._unpacker.feed(data):
                self._engine._message(kind, value)
        except Exception as error:
            _log.exception("batch of the engine failed")
            self._engine._fail(EngineFailure(f"engine: its batch raised {type(error).__name__} in the service"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._engine._socket_ended()
