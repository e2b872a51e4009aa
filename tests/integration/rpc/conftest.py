"""Servers on free ports, and certificates made on the spot."""

import asyncio
from contextlib import asynccontextmanager

import pytest
import trustme

from foreword.rpc.link import Link, LinkOptions
from foreword.rpc.roles import Role, RolePolicy
from foreword.rpc.server import RpcServer, ServerOptions
from foreword.rpc.services import Service, link_stream
from foreword.rpc.tls import TlsFiles, open_channel
from foreword.wire.frames import TargetAttachClient, TargetAttachServer
from foreword.wire.limits import Limits
from foreword.wire.methods import TARGET_SERVICE
from tests.unit.rpc.pipes import Recorder

LIMITS = Limits()
OPTIONS = LinkOptions()
# For tests of silence alone: on a loaded machine gRPC's own threads may be still for longer than three of these.
QUICK_LIVENESS = LinkOptions(liveness_s=0.05)
ROLES = RolePolicy(
    {"orchestrator.example": frozenset({Role.ORCHESTRATOR}), "*.drafts.example": frozenset({Role.DRAFT})}
)


class Authority:
    """Issues certificates into files."""

    def __init__(self, folder):
        self.folder = folder
        self.authority = trustme.CA()
        self.authority.cert_pem.write_to_path(folder / "ca.pem")

    def files(self, *names):
        """Return TLS files of a certificate for these names, and for this machine."""
        issued = self.authority.issue_cert(*names, "127.0.0.1", "localhost")
        certificate, key = self.folder / f"{names[0]}.pem", self.folder / f"{names[0]}.key"
        certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(key)
        return TlsFiles(certificate, key, self.folder / "ca.pem")


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="session")
def strangers(tmp_path_factory):
    """An authority that the servers do not know."""
    return Authority(tmp_path_factory.mktemp("strangers"))


class Target:
    """A service whose Attach is a link to `handler`; remembers its links."""

    def __init__(self, handler=None, options=OPTIONS):
        self.handler = handler or Recorder()
        self.options = options
        self.links = []

    def service(self, **others):
        attach = link_stream(self.attach, roles=frozenset({Role.ORCHESTRATOR}))
        return Service(TARGET_SERVICE, {"Attach": attach, **others})

    async def attach(self, transport, context):
        link = Link(TargetAttachServer(LIMITS), self.handler, instance="target-1", options=self.options)
        self.links.append(link)
        reason = await link.run(transport)
        if reason is not None:
            raise reason


@asynccontextmanager
async def serving(*services, **options):
    """Run a server; gives it, started."""
    server = RpcServer(ServerOptions(**{"listen": "127.0.0.1:0", "grace_s": 0.2, **options}), services)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def channel_to(server, tls=None):
    channel = open_channel(server.address, tls=tls)
    try:
        yield channel
    finally:
        await channel.close()


def orchestrator_link(handler, options=OPTIONS):
    return Link(TargetAttachClient(LIMITS), handler, instance="orchestrator-1", options=options)


@asynccontextmanager
async def running(work):
    """Run a coroutine beside a test; it is cancelled at the end."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
