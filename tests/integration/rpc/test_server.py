"""Life cycle of a server, its errors, its identities, over real gRPC."""

import asyncio
import signal
import sys
from pathlib import Path

import grpc
import grpc.aio
import pytest
import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from foreword.errors import Full, InvalidField, Unauthorized, Unavailable
from foreword.rpc.calls import call_unary
from foreword.rpc.roles import Role
from foreword.rpc.server import RpcServer, ServerOptions, serve
from foreword.rpc.services import Service, server_stream, unary
from foreword.rpc.tls import open_channel
from foreword.wire.methods import TARGET_SERVICE
from tests.integration.rpc.conftest import ROLES, Target, channel_to, running, serving

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


async def _say(request, context):
    if request == b"bug":
        raise KeyError("secret detail")
    if request == b"full":
        raise Full("sessions: got 9, wanted at most 8", retry_after_ms=40)
    if request == b"slow":
        await asyncio.sleep(60)
    return request


def _decode(data):
    if data == b"bad":
        raise InvalidField("gamma", -1, "a whole number from 0 to 32")
    return data


async def _count(request, context):
    for number in range(int(request)):
        yield number
    raise Full("no more")


ECHO = Service(
    "test.Echo",
    {
        "Say": unary(_say, decode=_decode, encode=bytes),
        "Count": server_stream(_count, decode=bytes, encode=lambda n: bytes([n])),
        "Draft": unary(_say, decode=bytes, encode=bytes, roles=frozenset({Role.DRAFT})),
    },
)


async def health(channel, service=""):
    check = health_pb2_grpc.HealthStub(channel).Check
    return (await check(health_pb2.HealthCheckRequest(service=service))).status


async def say(channel, request, method="Say", **kwargs):
    return await call_unary(channel, f"/test.Echo/{method}", decode=bytes, request=request, **kwargs)


async def test_calls_and_the_errors_that_they_map():
    async with serving(ECHO) as server, channel_to(server) as channel:
        assert await say(channel, b"hello") == b"hello"
        with pytest.raises(Full) as full:
            await say(channel, b"full")
        assert full.value.retry_after_ms == 40
        with pytest.raises(InvalidField) as bad:
            await say(channel, b"bad")
        assert bad.value.message == "gamma: got -1, wanted a whole number from 0 to 32"
        with pytest.raises(Exception, match="Deadline Exceeded") as late:
            await say(channel, b"slow", timeout_s=0.05)
        assert type(late.value).__name__ == "DeadlineExceeded"


async def test_a_stream_delivers_what_came_before_its_error():
    async with serving(ECHO) as server, channel_to(server) as channel:
        call = channel.unary_stream("/test.Echo/Count")(b"3")
        assert [await call.read() for _ in range(3)] == [b"\x00", b"\x01", b"\x02"]
        with pytest.raises(grpc.aio.AioRpcError, match="no more"):
            await call.read()


class Flood:
    """A stream that is longer than any buffer; tells when it is over."""

    def __init__(self, write_s=None):
        self.over = asyncio.Event()
        flood = server_stream(self._flood, decode=bytes, encode=bytes, write_s=write_s)
        self.service = Service("test.Flood", {"Flood": flood})

    async def _flood(self, request, context):
        try:
            while True:
                yield bytes(1 << 20)
        finally:
            self.over.set()


async def _read_on(call):
    while True:
        await call.read()


async def test_a_client_that_takes_nothing_any_more_holds_nothing():
    flood = Flood(write_s=0.2)
    async with serving(flood.service) as server, channel_to(server) as channel:
        call = channel.unary_stream("/test.Flood/Flood")(b"")
        await call.read()
        await asyncio.wait_for(flood.over.wait(), 20.0)
        with pytest.raises(grpc.aio.AioRpcError, match=r"took nothing for 0\.2 s") as caught:
            await _read_on(call)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_a_client_that_cancels_amid_a_write_is_no_incident():
    flood = Flood()
    async with serving(flood.service) as server, channel_to(server) as channel:
        with structlog.testing.capture_logs() as logs:
            for _ in range(5):
                call = channel.unary_stream("/test.Flood/Flood")(b"")
                await call.read()
                await asyncio.sleep(0.02)
                call.cancel()
                await asyncio.wait_for(flood.over.wait(), 20.0)
                flood.over.clear()
    assert logs == []


async def test_a_bug_becomes_an_incident_and_its_traceback_stays_in_the_log():
    async with serving(ECHO) as server, channel_to(server) as channel:
        call = channel.unary_unary("/test.Echo/Say")(b"bug")
        with structlog.testing.capture_logs() as logs, pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
    (entry,) = logs
    error = caught.value
    assert error.code() is grpc.StatusCode.INTERNAL
    assert error.details() == f"internal error, incident {entry['incident']}"
    assert (entry["event"], entry["exc_info"]) == ("unexpected error", True)
    assert "secret" not in repr(error)
    assert "KeyError" not in repr(error)


@pytest.mark.parametrize(("sent", "kept"), [("abc-123", True), ("x" * 129, False), ("a b", False)])
async def test_request_ids_come_back(sent, kept):
    async with serving(ECHO) as server, channel_to(server) as channel:
        for request in (b"hello", b"full", b"bug"):
            call = channel.unary_unary("/test.Echo/Say")(request, metadata=(("x-request-id", sent),))
            metadata = dict(await call.trailing_metadata())
            assert (metadata["x-request-id"] == sent) is kept
            assert metadata["x-request-id"]


async def test_health_tells_liveness_then_readiness_then_the_end():
    async with serving(ECHO) as server, channel_to(server) as channel:
        assert await health(channel) == SERVING
        assert await health(channel, "test.Echo") == NOT_SERVING
        await server.set_ready(ready=True)
        assert await health(channel, "test.Echo") == SERVING
        await server.drain()
        assert await health(channel, "test.Echo") == NOT_SERVING
        assert await health(channel) == NOT_SERVING


async def services_by_reflection(channel):
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    call = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter([request]))
    async for response in call:
        return {service.name for service in response.list_services_response.service}


async def test_reflection_is_behind_its_flag():
    async with serving(Target().service(), reflection=True) as server, channel_to(server) as channel:
        assert TARGET_SERVICE in await services_by_reflection(channel)
    async with serving(Target().service()) as server, channel_to(server) as channel:
        with pytest.raises(grpc.aio.AioRpcError, match="Method not found"):
            await services_by_reflection(channel)


async def test_a_port_in_use_is_an_error_of_one_line(capfd):
    async with serving(ECHO) as server:
        with pytest.raises(Unavailable) as caught:
            await RpcServer(ServerOptions(listen=server.address), [ECHO]).start()
    assert "add_port" not in capfd.readouterr().err
    assert caught.value.message == (
        f"listen: got {server.address}, which cannot be bound (Address already in use), "
        "wanted a free address of this machine"
    )


def test_plaintext_off_loopback_is_refused_before_anything_is_bound():
    with pytest.raises(InvalidField, match=r"listen: got '0\.0\.0\.0:0', wanted a loopback address"):
        RpcServer(ServerOptions(listen="0.0.0.0:0"), [ECHO])
    RpcServer(ServerOptions(listen="0.0.0.0:0", insecure=True), [ECHO])


async def test_the_address_file_appears_when_the_service_is_ready(tmp_path):
    path = tmp_path / "address"
    async with serving(ECHO, address_file=path) as server:
        assert not path.exists()
        await server.set_ready(ready=True)
        assert path.read_text() == server.address + "\n"
        assert [child.name for child in tmp_path.iterdir()] == ["address"]


async def test_roles_by_certificate(authority):
    files = authority.files("target.example")
    options = {"tls": files, "roles": ROLES}
    async with serving(ECHO, **options) as server:
        async with channel_to(server, authority.files("a.drafts.example")) as channel:
            assert await say(channel, b"x", "Draft") == b"x"
        async with channel_to(server, authority.files("orchestrator.example")) as channel:
            assert await say(channel, b"x") == b"x"
            with pytest.raises(Unauthorized) as caught:
                await say(channel, b"x", "Draft")
        async with channel_to(server, authority.files("nobody.example")) as channel:
            with pytest.raises(Unauthorized, match=r"certificate: got nobody\.example.* the role client or draft"):
                await say(channel, b"x")
            assert await health(channel) == SERVING
    assert "test.Echo/Draft: got orchestrator.example" in caught.value.message
    assert caught.value.message.endswith("with role orchestrator, wanted role draft")


async def test_probes_without_tls_hear_of_health_and_of_nothing_else(authority):
    tls = authority.files("target.example")
    async with serving(ECHO, tls=tls, roles=ROLES, health_listen="127.0.0.1:0") as server:
        async with open_channel(server.address, tls=None) as channel:
            with pytest.raises(grpc.aio.AioRpcError, match="UNAVAILABLE"):
                await health(channel)
        async with open_channel(server.health_address, tls=None) as channel:
            assert await health(channel) == SERVING
            assert await health(channel, ECHO.name) == NOT_SERVING
            await server.set_ready(ready=True)
            assert await health(channel, ECHO.name) == SERVING
            with pytest.raises(Exception, match="Method not found"):
                await say(channel, b"hello")
            await server.drain()
            assert await health(channel) == NOT_SERVING


async def test_a_health_port_in_use_is_an_error_of_one_line():
    async with serving(ECHO) as server:
        options = ServerOptions(health_listen=server.address)
        with pytest.raises(Unavailable, match=f"health_listen: got {server.address}, which cannot be bound"):
            await RpcServer(options, [ECHO]).start()


async def test_peers_without_a_certificate_of_ours_are_not_heard(authority, strangers):
    async with serving(ECHO, tls=authority.files("target.example"), roles=ROLES) as server:
        for channel in (
            open_channel(server.address, tls=strangers.files("a.drafts.example")),
            grpc.aio.insecure_channel(server.address),
            grpc.aio.secure_channel(
                server.address, grpc.ssl_channel_credentials((authority.folder / "ca.pem").read_bytes())
            ),
        ):
            async with channel:
                with pytest.raises(Unavailable):
                    await say(channel, b"x", timeout_s=5)


async def ready(address):
    """Wait by a health watch until the service is ready."""
    async with open_channel(address, tls=None) as channel:
        request = health_pb2.HealthCheckRequest(service="test.Echo")
        async for response in health_pb2_grpc.HealthStub(channel).Watch(request):
            if response.status == SERVING:
                return


async def test_serve_runs_from_start_to_drain(tmp_path):
    told, stop, address = [], asyncio.Event(), asyncio.get_running_loop().create_future()
    path = tmp_path / "address"

    async def started(bound):
        told.append("started")
        address.set_result(bound)

    async def drain():
        told.append("drained")

    server = RpcServer(ServerOptions(address_file=path, grace_s=0.1), [ECHO])
    async with running(serve(server, stop=stop, started=started, drain=drain)) as task:
        await asyncio.wait_for(ready(await address), 10)
        assert path.read_text() == server.address + "\n"
        stop.set()
        await task
    assert told == ["started", "drained"]
    with pytest.raises(Unavailable):
        async with channel_to(server) as channel:
            await say(channel, b"x")


async def test_serve_stops_while_the_service_is_still_starting():
    stop = asyncio.Event()

    async def never(_):
        stop.set()
        await asyncio.Event().wait()

    async def drain():
        return None

    await asyncio.wait_for(serve(RpcServer(ServerOptions(), [ECHO]), stop=stop, started=never, drain=drain), 10)


async def test_a_drain_that_does_not_end_is_cut_off():
    stop = asyncio.Event()

    async def started(_):
        stop.set()

    async def drain():
        await asyncio.Event().wait()

    server = RpcServer(ServerOptions(grace_s=0.05), [ECHO])
    await asyncio.wait_for(serve(server, stop=stop, started=started, drain=drain), 10)


async def test_a_service_that_cannot_start_ends_serve_with_its_error():
    async def fail(_):
        raise Unavailable("engine: not ready in 1 s")

    async def drain():
        return None

    with pytest.raises(Unavailable, match="engine: not ready"):
        await serve(RpcServer(ServerOptions(), [ECHO]), stop=asyncio.Event(), started=fail, drain=drain)


PROGRAM = """
import asyncio, sys
from foreword.rpc.server import RpcServer, ServerOptions, serve

async def nothing(*_):
    return None

async def main():
    server = RpcServer(ServerOptions(), [])
    await serve(server, stop=asyncio.Event(), started=lambda a: say(a), drain=nothing)

async def say(address):
    sys.stdout.write(address + "\\n")
    sys.stdout.flush()

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_signals_end_a_server_in_good_order(number):
    root = Path(__file__).parents[3]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, cwd=root, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        seen = b""
        while b"127.0.0.1:" not in seen or not seen.endswith(b"\n"):
            seen += await process.stdout.read(1000)
        process.send_signal(number)
        rest = await process.stdout.read()
        assert await process.wait() == 0
        assert b"Traceback" not in seen + rest
        assert b"stopped" in seen + rest
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
