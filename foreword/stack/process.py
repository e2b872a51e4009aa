"""One child process of a stack: started in a group of its own, read, waited for, signalled."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import deque
from pathlib import Path

import foreword
from foreword.errors import Unavailable
from foreword.stack.config import ServicePlan
from foreword.stack.events import OnLog

_POLL_S = 0.02
_LONGEST_LINE = 1 << 20


class ServiceProcess:
    """A running service. Its stdin is a pipe from this process: the child ends when it sees that end."""

    def __init__(self, plan: ServicePlan, process: asyncio.subprocess.Process, on_log: OnLog) -> None:
        self._plan = plan
        self._process = process
        self._last_lines: deque[str] = deque(maxlen=20)
        self._reader = asyncio.create_task(self._read(on_log))

    @classmethod
    async def start(cls, plan: ServicePlan, port: int, on_log: OnLog) -> ServiceProcess:
        """Start the service on `port`, 0 for a free one; raises Unavailable if the command cannot be run."""
        plan.address_file.unlink(missing_ok=True)
        argv = (*plan.argv, "--listen", f"{plan.host}:{port}")
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                limit=_LONGEST_LINE,
                env=_environment(),
                start_new_session=True,
            )
        except OSError as error:
            raise Unavailable(f"{plan.name}: got {error.strerror}, wanted to start {argv[0]}") from error
        return cls(plan, process, on_log)

    @property
    def pid(self) -> int:
        """Process id, also that of the group."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.returncode is None

    async def serving(self, timeout_s: float) -> str:
        """Return the bound address once it serves; raises Unavailable if it ends or takes longer."""
        address_file, deadline = self._plan.address_file, asyncio.get_running_loop().time() + timeout_s
        while not address_file.exists():
            if not self.running:
                await self._reader
                raise Unavailable(f"{self._plan.name}: {self.ending()} before it served: {self._last_words()}")
            if asyncio.get_running_loop().time() > deadline:
                raise Unavailable(f"{self._plan.name}: got no service, wanted one within {timeout_s:g} s")
            await asyncio.sleep(_POLL_S)
        return address_file.read_text(encoding="utf-8").strip()

    async def ended(self) -> None:
        """Return when it has ended and nothing of its group is left."""
        await self._process.wait()
        self._kill_group()
        await self._reader

    def ending(self) -> str:
        """Say how it ended."""
        status = self._process.returncode
        if status is None:
            return "runs"
        return f"ended by {signal.Signals(-status).name}" if status < 0 else f"exited with status {status}"

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the service itself, not to its group; without effect once it has ended."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def stop(self, grace_s: float) -> None:
        """End it in order, or after `grace_s` by force."""
        self.send(signal.SIGTERM)
        self.send(signal.SIGCONT)  # one that is stopped could not obey
        try:
            await asyncio.wait_for(self._process.wait(), grace_s)
        except TimeoutError:
            self._kill_group()
        await self.ended()

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    async def _read(self, on_log: OnLog) -> None:
        assert self._process.stdout is not None
        while True:
            try:
                line = await self._process.stdout.readline()
            except ValueError:  # longer than the limit; the reader has dropped it
                continue
            if not line:
                return
            text = line.decode("utf-8", "replace").rstrip()
            self._last_lines.append(text)
            on_log(self._plan.name, text)

    def _last_words(self) -> str:
        return next((line for line in reversed(self._last_lines) if line.strip()), "it wrote nothing")


def _environment() -> dict[str, str]:
    """Return the environment of children: they find this very package wherever they are started."""
    root = str(Path(foreword.__file__).resolve().parent.parent)
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
