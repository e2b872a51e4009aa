"""The stack: everything that `foreword up` runs, as a context manager.

async with Stack(StackConfig(target="synthetic:vocab=64")) as stack:
    async with AsyncClient(stack.address) as client:
        ...
    stack.kill("draft")
    await stack.serving("draft")
"""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from foreword.client import AsyncClient
from foreword.errors import ForewordError, InvalidField, Mismatch, Unavailable
from foreword.protocol.generation import PeerInfo
from foreword.stack.config import (
    ORCHESTRATOR,
    TARGET,
    ServicePlan,
    StackConfig,
    http_address_file,
    plan_drafts,
    plan_orchestrator,
    plan_target,
)
from foreword.stack.events import OnEvent, OnLog
from foreword.stack.port import check_port
from foreword.stack.service import Service

_POLL_S = 0.05
_PEERS_TIMEOUT_S = 60.0


class Stack:
    """Starts target and drafts, then the orchestrator; entering returns when requests can be sent.

    Raises InvalidField, before anything is started, if the port is taken, Unavailable, with the last words of the
    service, if one does not come to serve, and Mismatch if the models do not fit; what was started is stopped first.
    A service that ends later is restarted on the same port. `on_event` and `on_log` are called on the loop.
    """

    def __init__(
        self, config: StackConfig, *, on_event: OnEvent = lambda _: None, on_log: OnLog = lambda *_: None
    ) -> None:
        self._config = config
        self._on_event = on_event
        self._on_log = on_log
        self._services: dict[str, Service] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="foreword-")

    @property
    def address(self) -> str:
        """Where clients call."""
        return self._services[ORCHESTRATOR].address

    @property
    def http_address(self) -> str | None:
        """Where the HTTP API is, also after a restart; None where there is none."""
        if self._config.http_port is None:
            return None
        return http_address_file(Path(self._folder.name)).read_text(encoding="utf-8").strip()

    @property
    def services(self) -> tuple[str, ...]:
        """Names of the services, in the order of their start."""
        return tuple(self._services)

    def address_of(self, service: str) -> str:
        """Return where a service is reached."""
        return self._service(service).address

    def way_to(self, draft: str) -> str:
        """Return where the orchestrator is told that a draft is reached; asked once, when the draft serves."""
        return self.address_of(draft)

    def pid(self, service: str) -> int | None:
        """Return the process id of a service; None while it has no process."""
        return self._service(service).pid

    def restarts(self, service: str) -> int:
        """Return how often a service has been started again."""
        return self._service(service).restarts

    def kill(self, service: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to a service's process, as a crash or an operator would; its engine ends with it."""
        self._service(service).send(number)

    async def serving(self, service: str) -> None:
        """Return when a service serves, again after a restart."""
        await self._service(service).serving()

    async def start(self) -> Self:
        """Start everything; see the class."""
        try:
            check_port(self._config)
            folder = Path(self._folder.name)
            first = [plan_target(self._config, folder), *plan_drafts(self._config, folder)]
            await _all([self._add(plan).start() for plan in first])
            drafts = [self.way_to(name) for name in self._config.draft_names]
            target = self._services[TARGET].address
            await self._add(plan_orchestrator(self._config, folder, target=target, drafts=drafts)).start()
            await self._peers_up(len(drafts))
        except BaseException:
            await self.stop()
            raise
        return self

    async def stop(self) -> None:
        """Stop everything, the orchestrator first, so that it can end what runs."""
        front = self._services.get(ORCHESTRATOR)
        if front is not None:
            await front.stop()
        await asyncio.gather(*(service.stop() for service in self._services.values() if service is not front))
        self._services.clear()
        self._folder.cleanup()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _add(self, plan: ServicePlan) -> Service:
        service = Service(plan, self._config, on_event=self._on_event, on_log=self._on_log)
        self._services[plan.name] = service
        return service

    def _service(self, name: str) -> Service:
        if name not in self._services:
            raise InvalidField("service", name, f"one of {', '.join(self._services) or 'none: the stack is stopped'}")
        return self._services[name]

    async def _peers_up(self, drafts: int) -> None:
        """Wait until the orchestrator has reached the others."""
        deadline = asyncio.get_running_loop().time() + _PEERS_TIMEOUT_S
        async with AsyncClient(self.address) as client:
            while True:
                try:
                    info = await client.info()
                except ForewordError as error:
                    why = str(error)
                else:
                    peers = [*info.targets, *info.drafts]
                    down = [peer for peer in peers if not peer.up]
                    if not down and len(info.targets) == 1 and len(info.drafts) == drafts:
                        _check_use(peers)
                        return
                    why = "; ".join(f"{peer.address}: {peer.last_error or 'not reached yet'}" for peer in down)
                if asyncio.get_running_loop().time() > deadline:
                    raise Unavailable(f"orchestrator: got no contact with its peers ({why}), wanted it soon")
                await asyncio.sleep(_POLL_S)


def _check_use(peers: list[PeerInfo]) -> None:
    """Raise Mismatch for a peer that was reached and cannot be used, such as a draft with another vocabulary."""
    for peer in peers:
        if peer.last_error:
            raise Mismatch(peer.last_error)


async def _all(work: list[Coroutine[Any, Any, None]]) -> None:
    """Await all; the first failure cancels the others."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
