"""One child process of a stack: started in a group of its own, read, waited for, signalled."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import deque
from typing import cast

from foreword.errors import Unavailable
from foreword.settings.environment import engine_environment
from foreword.stack.config import ServicePlan
from foreword.stack.events import OnLog

_POLL_S = 0.02
_LONGEST_LINE = 1 << 20
_PIPES_S = 2.0
"""Time for the pipes to close once the group is killed; a process that left the group may hold them."""


class ServiceProcess(asyncio.SubprocessProtocol):
    """A running service. Its stdin is a pipe from this process: the child ends when it sees that end.

    Built on asyncio's callbacks, because its `Process.wait` waits for the pipes too, and an engine that outlives its
    service holds them.
    """

    def __init__(self, plan: ServicePlan, on_log: OnLog) -> None:
        self._plan = plan
        self._on_log = on_log
        self._transport: asyncio.SubprocessTransport | None = None
        self._unfinished = b""
        self._last_lines: deque[str] = deque(maxlen=20)
        self._exited = asyncio.Event()
        self._closed = asyncio.Event()

    @classmethod
    async def start(cls, plan: ServicePlan, *, port: int, on_log: OnLog) -> ServiceProcess:
        """Start the service on `port`, 0 for a free one; raises Unavailable if the command cannot be run."""
        plan.address_file.unlink(missing_ok=True)
        argv = (*plan.argv, "--listen", f"{plan.host}:{port}")
        process, loop = cls(plan, on_log), asyncio.get_running_loop()
        try:
            await loop.subprocess_exec(
                lambda: process,
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=engine_environment(extra={"PYTHONUNBUFFERED": "1"}),
                start_new_session=True,
            )
        except OSError as error:
            raise Unavailable(f"{plan.name}: got {error.strerror}, wanted to start {argv[0]}") from error
        return process

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; called by asyncio, as are the next three."""
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Pass whole lines on."""
        *lines, self._unfinished = (self._unfinished + data).split(b"\n")
        for line in lines:
            self._pass_on(line)
        if len(self._unfinished) > _LONGEST_LINE:
            self._pass_on(self._unfinished)
            self._unfinished = b""

    def process_exited(self) -> None:
        """Take what is left of its group along."""
        self._exited.set()
        self._kill_group()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the process has ended and its pipes are closed."""
        if self._unfinished:
            self._pass_on(self._unfinished)
        self._closed.set()

    @property
    def pid(self) -> int:
        """Process id, also that of the group."""
        assert self._transport is not None
        return self._transport.get_pid()

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return not self._exited.is_set()

    async def serving(self, timeout_s: float) -> str:
        """Return the bound address once it serves; raises Unavailable if it ends or takes longer."""
        address_file, deadline = self._plan.address_file, asyncio.get_running_loop().time() + timeout_s
        while not address_file.exists():
            if not self.running:
                await self.ended()
                raise Unavailable(f"{self._plan.name}: {self.ending()} before it served: {self._last_words()}")
            if asyncio.get_running_loop().time() > deadline:
                raise Unavailable(f"{self._plan.name}: got no service, wanted one within {timeout_s:g} s")
            await asyncio.sleep(_POLL_S)
        return address_file.read_text(encoding="utf-8").strip()

    async def ended(self) -> None:
        """Return when it has ended, nothing of its group is left, and all that it wrote was passed on."""
        await self._exited.wait()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._closed.wait(), _PIPES_S)
        assert self._transport is not None
        self._transport.close()

    def ending(self) -> str:
        """Say how it ended."""
        status = self._transport.get_returncode() if self._transport is not None else None
        if status is None:
            return "runs"
        return f"ended by {signal.Signals(-status).name}" if status < 0 else f"exited with status {status}"

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the service itself, not to its group; without effect once it has ended."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def stop(self, grace_s: float) -> None:
        """End it in order, or after `grace_s` by force."""
        self.send(signal.SIGTERM)
        self.send(signal.SIGCONT)  # one that is stopped could not obey
        try:
            await asyncio.wait_for(self._exited.wait(), grace_s)
        except TimeoutError:
            self._kill_group()
        await self.ended()

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def _pass_on(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip()
        self._last_lines.append(text)
        self._on_log(self._plan.name, text)

    def _last_words(self) -> str:
        return next((line for line in reversed(self._last_lines) if line.strip()), "it wrote nothing")
