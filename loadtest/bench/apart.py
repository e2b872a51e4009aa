"""A stack whose draft is far from target and orchestrator: both of its links go through a proxy that delays them."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from foreword.client import AsyncClient
from foreword.errors import Unavailable
from foreword.stack.config import ServicePlan, StackConfig, plan_drafts, plan_orchestrator, plan_target
from foreword.stack.service import Service
from foreword.testing.fault_proxy import FaultProxy, Shape

_PEERS_TIMEOUT_S = 60.0


class Apart:
    """Target and orchestrator on one side, one draft on the other; `rtt_ms` may change at any time."""

    def __init__(self, config: StackConfig, *, rtt_ms: float) -> None:
        self._config = config
        self._rtt_ms = rtt_ms
        self._folder = tempfile.TemporaryDirectory(prefix="foreword-")
        self._services: list[Service] = []
        self._proxies: list[FaultProxy] = []

    @property
    def address(self) -> str:
        """Where clients call."""
        return self._services[-1].address

    def network(self, rtt_ms: float) -> None:
        """Set the round trip between the two sides."""
        self._rtt_ms = rtt_ms
        for proxy in self._proxies:
            proxy.shape(Shape(delay_ms=rtt_ms / 2.0))

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()

    async def _start(self) -> None:
        folder, config = Path(self._folder.name), self._config
        port = free_port(config.host)
        towards_target = self._proxy(f"{config.host}:{port}")
        told = {**config.arguments, "target": (*config.arguments.get("target", ()), "--advertise", towards_target)}
        config = replace(config, arguments=told)
        target = await self._launch(replace(plan_target(config, folder), port=port))
        (plan,) = plan_drafts(config, folder)
        draft = await self._launch(plan)
        drafts = [self._proxy(draft.address)]
        await self._launch(plan_orchestrator(config, folder, target=target.address, drafts=drafts))
        await self._peers_up()

    def _proxy(self, upstream: str) -> str:
        proxy = FaultProxy(upstream).start()
        self._proxies.append(proxy)
        proxy.shape(Shape(delay_ms=self._rtt_ms / 2.0))
        return proxy.address

    async def _launch(self, plan: ServicePlan) -> Service:
        service = Service(plan, self._config, on_event=lambda _: None, on_log=lambda *_: None)
        self._services.append(service)
        await service.start()
        return service

    async def _peers_up(self) -> None:
        async with AsyncClient(self.address) as client:
            for _ in range(int(_PEERS_TIMEOUT_S / 0.1)):
                info = await client.info()
                if info.drafts and all(peer.up for peer in (*info.targets, *info.drafts)):
                    return
                await asyncio.sleep(0.1)
        raise Unavailable("orchestrator: got no contact with its peers, wanted it soon")

    async def _stop(self) -> None:
        for service in reversed(self._services):
            await service.stop()
        for proxy in self._proxies:
            proxy.stop()
        self._folder.cleanup()


def free_port(host: str) -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind((host, 0))
        port: int = listener.getsockname()[1]
        return port
