"""Targets behind a DNS name over real gRPC: every instance is used, one vanishes, another appears, texts stay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from foreword.client import AsyncClient, Tls
from foreword.client.stream import AsyncStream
from foreword.errors import Unavailable
from foreword.protocol.generation import Delta, PeerInfo, TokenPrompt
from foreword.rpc.roles import Role
from foreword.settings.base import TlsSettings
from orchestrator.pools.names import Answer, Name
from orchestrator.service import run as run_orchestrator
from orchestrator.settings import OrchestratorSettings
from tests.integration.orchestrator.services import Running, start_draft, start_target

PROMPT = TokenPrompt((3, 1, 4, 1, 5))
FIELDS: dict[str, Any] = {"temperature": 1.0, "seed": 2, "max_tokens": 300}
ROLES = {f"{role.value}.example": frozenset({role}) for role in Role}


class Dns:
    """A resolver that knows what it is told."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}

    def __call__(self, name: Name, answered: Callable[[Answer], None]) -> None:
        answer = self.answers.get(name.host, Unavailable(f"name {name.host}: cannot be resolved"))
        asyncio.get_running_loop().call_soon(answered, answer)

    def set(self, host: str, *services: Running) -> None:
        self.answers[host] = frozenset(service.address for service in services)


@asynccontextmanager
async def front(folder: Path, dns: Dns, **settings: Any) -> AsyncIterator[Running]:
    """An orchestrator that knows its peers by name alone."""
    file = folder / "front"
    file.unlink(missing_ok=True)
    values: dict[str, Any] = {
        "targets": ("dns:///localhost:1",),
        "resolve_s": 0.1,
        "address_file": file,
        "grace_s": 0,
    }

    async def run(values: OrchestratorSettings, *, stop: asyncio.Event) -> None:
        await run_orchestrator(values, stop, look_up=dns)

    running = Running(run, OrchestratorSettings(**(values | settings)), file)
    try:
        yield await running.ready()
    finally:
        await running.stop()


async def targets_become(client: AsyncClient, check: Callable[[list[PeerInfo]], bool]) -> list[PeerInfo]:
    """Return what clients are told of the targets once that is so."""
    async with asyncio.timeout(120):
        while True:
            peers = list((await client.info()).targets)
            if check(peers):
                return peers
            await asyncio.sleep(0.02)


async def tokens_came(stream: AsyncStream, count: int) -> None:
    seen = 0
    async for event in stream:
        seen += len(event.ids) if isinstance(event, Delta) else 0
        if seen >= count:
            return


def up(count: int) -> Callable[[list[PeerInfo]], bool]:
    return lambda peers: len(peers) == count and all(peer.up for peer in peers)


async def test_instances_of_a_name_come_and_go_under_running_requests(tmp_path: Path) -> None:
    dns = Dns()
    async with AsyncExitStack() as stack:
        first, second, third = [start_target(tmp_path, f"target{i}") for i in range(3)]
        draft = start_draft(tmp_path)
        for service in (second, third, draft):
            stack.push_async_callback(service.stop)
        for service in (first, second, third, draft):
            await service.ready()
        dns.set("localhost", first, second)
        served = await stack.enter_async_context(front(tmp_path, dns, drafts=(draft.address,), reopens_at_once=2))
        client = await stack.enter_async_context(AsyncClient(served.address))
        await targets_become(client, up(2))
        plain = await client.generate(PROMPT, gamma=0, **FIELDS)

        streams = [await stack.enter_async_context(client.stream(PROMPT, gamma=4, **FIELDS)) for _ in range(8)]
        await asyncio.gather(*(tokens_came(stream, 20) for stream in streams))
        dns.set("localhost", second, third)
        peers = await targets_become(client, lambda peers: len(peers) == 3 and all(p.up for p in peers))
        assert {peer.address for peer in peers} == {first.address, second.address, third.address}
        await first.stop()
        results = await asyncio.gather(*(stream.completion() for stream in streams))

        assert all(result.ids == plain.ids for result in results)
        assert any(result.usage.targets_used == 2 for result in results)
        peers = await targets_become(client, up(2))
        assert {peer.address for peer in peers} == {second.address, third.address}
        assert (await client.generate(PROMPT, gamma=4, **FIELDS)).ids == plain.ids


async def test_a_name_that_resolves_later_and_then_fails_costs_nothing_but_time(tmp_path: Path) -> None:
    dns = Dns()
    async with AsyncExitStack() as stack:
        target = await start_target(tmp_path).ready()
        stack.push_async_callback(target.stop)
        starting = asyncio.create_task(stack.enter_async_context(front(tmp_path, dns)))
        await asyncio.sleep(0.3)
        assert not starting.done()
        dns.set("localhost", target)
        client = await stack.enter_async_context(AsyncClient((await starting).address))
        await targets_become(client, up(1))
        dns.answers.clear()
        await asyncio.sleep(0.3)
        assert len((await client.generate(PROMPT, gamma=0, **FIELDS)).ids) == 300
        (peer,) = (await client.info()).targets
        assert (peer.address, peer.up) == (target.address, True)


async def test_an_instance_that_never_answers_is_dropped_in_the_middle_of_an_attempt(tmp_path: Path) -> None:
    dns, begun, ended = Dns(), asyncio.Event(), asyncio.Event()

    writers: list[asyncio.StreamWriter] = []

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        begun.set()
        while await reader.read(1 << 16):
            continue
        ended.set()
        writer.close()

    async def hang_up() -> None:  # another attempt may be under way when the test is over
        for writer in writers:
            writer.close()
        await asyncio.sleep(0)

    async with AsyncExitStack() as stack:
        stack.push_async_callback(hang_up)
        target = await start_target(tmp_path).ready()
        stack.push_async_callback(target.stop)
        server = await stack.enter_async_context(await asyncio.start_server(silent, "127.0.0.1", 0))
        host, port = server.sockets[0].getsockname()
        dns.answers["localhost"] = frozenset({target.address, f"{host}:{port}"})
        client = await stack.enter_async_context(
            AsyncClient((await stack.enter_async_context(front(tmp_path, dns))).address)
        )
        await targets_become(client, lambda peers: sorted(peer.up for peer in peers) == [False, True])
        async with asyncio.timeout(5):
            await begun.wait()
            dns.set("localhost", target)
            await ended.wait()
        (peer,) = await targets_become(client, up(1))
        assert peer.address == target.address


def certificate(folder: Path, authority: trustme.CA, role: Role, *names: str) -> TlsSettings:
    stem = folder / f"{role.value}-{len(names)}"
    issued = authority.issue_cert(f"{role.value}.example", *names)
    stem.with_suffix(".pem").write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(str(stem.with_suffix(".key")))
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    return TlsSettings(cert=stem.with_suffix(".pem"), key=stem.with_suffix(".key"), ca=folder / "ca.pem", roles=ROLES)


@pytest.mark.parametrize("named", [True, False])
async def test_certificates_are_checked_against_the_name_and_not_the_address(tmp_path: Path, *, named: bool) -> None:
    """The target's certificate has the name and not the address; one that has the address alone would prove nothing."""
    dns, authority = Dns(), trustme.CA()
    async with AsyncExitStack() as stack:
        names = ("targets.example",) if named else ("127.0.0.1",)
        target = await start_target(tmp_path, tls=certificate(tmp_path, authority, Role.TARGET, *names)).ready()
        good = await start_target(
            tmp_path, "good", tls=certificate(tmp_path, authority, Role.TARGET, "targets.example", "x.example")
        ).ready()
        for service in (target, good):
            stack.push_async_callback(service.stop)
        dns.set("targets.example", target, good)
        own = certificate(tmp_path, authority, Role.ORCHESTRATOR, "127.0.0.1")
        served = await stack.enter_async_context(front(tmp_path, dns, targets=("dns:///targets.example:1",), tls=own))
        mine = certificate(tmp_path, authority, Role.CLIENT)
        assert mine.cert is not None
        tls = Tls(certificate=mine.cert, key=mine.key, authority=mine.ca)
        client = await stack.enter_async_context(AsyncClient(served.address, tls=tls))
        peers = await targets_become(client, lambda peers: all(p.up or "verif" in p.last_error for p in peers))
        assert {peer.address: peer.up for peer in peers} == {target.address: named, good.address: True}
        assert (await client.generate(PROMPT, gamma=0, **FIELDS)).usage.output_tokens == 300
