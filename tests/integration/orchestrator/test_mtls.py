"""All services under mutual TLS: roles come from certificates, and only clients may generate."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trustme

from foreword.client import AsyncClient, Tls
from foreword.errors import Unauthorized
from foreword.protocol.generation import TokenPrompt
from foreword.rpc.roles import Role
from foreword.settings.base import TlsSettings
from tests.integration.orchestrator.services import Running, start_draft, start_orchestrator, start_target

ROLES = {f"{role.value}.example": frozenset({role}) for role in Role}
PROMPT = TokenPrompt((3, 1, 4))


class Authority:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = trustme.CA()
        self.authority.cert_pem.write_to_path(str(folder / "ca.pem"))
        for role in Role:
            issued = self.authority.issue_cert(f"{role.value}.example", "127.0.0.1")
            chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
            (folder / f"{role.value}.pem").write_bytes(chain)
            issued.private_key_pem.write_to_path(str(folder / f"{role.value}.key"))

    def settings(self, role: Role) -> TlsSettings:
        cert, key = (self.folder / f"{role.value}.{kind}" for kind in ("pem", "key"))
        return TlsSettings(cert=cert, key=key, ca=self.folder / "ca.pem", roles=ROLES)

    def client(self, role: Role) -> Tls:
        settings = self.settings(role)
        return Tls(certificate=settings.cert, key=settings.key, authority=settings.ca)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
async def front(tmp_path: Path, authority: Authority) -> AsyncIterator[Running]:
    async with AsyncExitStack() as stack:
        target = start_target(tmp_path, tls=authority.settings(Role.TARGET))
        draft = start_draft(tmp_path, tls=authority.settings(Role.DRAFT))
        for service in (target, draft):
            stack.push_async_callback(service.stop)
            await service.ready()
        front = start_orchestrator(tmp_path, [target], [draft], tls=authority.settings(Role.ORCHESTRATOR))
        stack.push_async_callback(front.stop)
        yield await front.ready()


async def test_a_client_generates_and_others_may_not(front: Running, authority: Authority) -> None:
    async with AsyncClient(front.address, tls=authority.client(Role.CLIENT)) as client:
        plain = await client.generate(PROMPT, temperature=0.0, max_tokens=60, gamma=0)
        fast = await client.generate(PROMPT, temperature=0.0, max_tokens=60, gamma=4)
        assert fast.ids == plain.ids
        assert fast.usage.verifications > 0
    async with AsyncClient(front.address, tls=authority.client(Role.DRAFT)) as stranger:
        assert (await stranger.info()).model is not None
        with pytest.raises(Unauthorized, match="Generate"):
            await stranger.generate(PROMPT, max_tokens=1)
