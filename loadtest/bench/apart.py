"""A stack whose draft is far from target and orchestrator: both of its links go through a proxy that delays them."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from foreword.stack.config import TARGET, ServicePlan, StackConfig
from foreword.stack.service import Service
from foreword.stack.stack import Stack
from foreword.testing.fault_proxy import FaultProxy, Shape
from loadtest.bench.scrape import free_port


class Apart(Stack):
    """Target and orchestrator on one side, the drafts on the other."""

    def __init__(self, config: StackConfig, *, rtt_ms: float) -> None:
        self._rtt_ms = rtt_ms
        self._proxies: list[FaultProxy] = []
        self._target_port = free_port()
        self._towards_target = FaultProxy(f"{config.host}:{self._target_port}", listen=f"{config.host}:{free_port()}")
        told = (*config.arguments.get(TARGET, ()), "--advertise", self._towards_target.address)
        super().__init__(replace(config, arguments={**config.arguments, TARGET: told}))

    async def start(self) -> Self:
        """Start everything."""
        self._began(self._towards_target)
        return await super().start()

    async def stop(self) -> None:
        """Stop everything."""
        await super().stop()
        proxies, self._proxies = self._proxies, []
        for proxy in proxies:
            proxy.stop()

    def way_to(self, draft: str) -> str:
        """Return the proxy in front of a draft."""
        return self._began(FaultProxy(super().way_to(draft)))

    def _add(self, plan: ServicePlan) -> Service:
        return super()._add(replace(plan, port=self._target_port) if plan.name == TARGET else plan)

    def _began(self, proxy: FaultProxy) -> str:
        proxy.start()
        proxy.shape(Shape(delay_ms=self._rtt_ms / 2.0))
        self._proxies.append(proxy)
        return proxy.address
