"""One service of a stack: a process, and another one whenever it ends by itself."""

from __future__ import annotations

import asyncio
import signal

from foreword.errors import Unavailable
from foreword.stack.config import ServicePlan, StackConfig
from foreword.stack.events import OnEvent, OnLog, ServiceEvent, ServiceState
from foreword.stack.process import ServiceProcess

_HEALTHY_S = 30.0
"""A service that has served this long starts again without a longer pause."""
_HARMLESS = (signal.SIGSTOP, signal.SIGCONT)
"""Signals after which the same process goes on serving, now or later."""


class Service:
    """Starts a service, restarts it on the same port with growing pauses, and stops it."""

    def __init__(self, plan: ServicePlan, config: StackConfig, *, on_event: OnEvent, on_log: OnLog) -> None:
        self._plan = plan
        self._config = config
        self._on_event = on_event
        self._on_log = on_log
        self._process: ServiceProcess | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._serving = asyncio.Event()
        self.address = ""
        self.restarts = 0
        """How often it has been started again."""

    @property
    def name(self) -> str:
        """What the stack calls it."""
        return self._plan.name

    @property
    def pid(self) -> int | None:
        """Process id; None while there is no process."""
        return self._process.pid if self._process is not None and self._process.running else None

    async def start(self) -> None:
        """Start it for the first time; raises Unavailable if it does not come to serve."""
        await self._launch(self._plan.port)
        self._watcher = asyncio.create_task(self._watch())

    async def serving(self) -> None:
        """Return when it serves."""
        await self._serving.wait()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process; raises Unavailable if there is none."""
        if self._process is None or not self._process.running:
            raise Unavailable(f"{self.name}: got no process, wanted one that runs")
        if number not in _HARMLESS:
            self._serving.clear()
        self._process.send(number)

    async def stop(self) -> None:
        """Stop it for good."""
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)
        if self._process is not None:
            await self._process.stop(self._config.grace_s)
            self._process = None
            self._report(ServiceState.STOPPED)

    async def _launch(self, port: int) -> None:
        self._report(ServiceState.STARTING)
        self._process = await ServiceProcess.start(self._plan, port=port, on_log=self._on_log)
        self.address = await self._process.serving(self._config.start_timeout_s)
        self._serving.set()
        self._report(ServiceState.SERVING, self.address)

    async def _watch(self) -> None:
        pause_s, loop = self._config.backoff_s, asyncio.get_running_loop()
        while True:
            began = loop.time()
            assert self._process is not None
            await self._process.ended()
            self._serving.clear()
            if loop.time() - began >= _HEALTHY_S:
                pause_s = self._config.backoff_s
            self._report(ServiceState.EXITED, self._process.ending())
            self._report(ServiceState.RESTARTING, f"after {pause_s:g} s")
            await asyncio.sleep(pause_s)
            pause_s = min(2.0 * pause_s, self._config.longest_backoff_s)
            self.restarts += 1
            await self._relaunch()

    async def _relaunch(self) -> None:
        """Start it again where its peers look for it; one that does not come to serve is ended, and watched again."""
        try:
            await self._launch(int(self.address.rpartition(":")[2]))
        except Unavailable as error:
            self._on_log(self.name, str(error))
            if self._process is not None:
                await self._process.stop(self._config.grace_s)

    def _report(self, state: ServiceState, detail: str = "") -> None:
        self._on_event(ServiceEvent(self.name, state, detail))
