"""Both clients against a scripted server over real gRPC."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
import trustme

from foreword import (
    AsyncClient,
    Cancelled,
    Client,
    DeadlineExceeded,
    Delta,
    EngineFailure,
    Finish,
    FinishReason,
    Full,
    InvalidField,
    Mismatch,
    ProtocolFault,
    Started,
    Tls,
    TokenSource,
    Unavailable,
)
from foreword.testing.fault_proxy import FaultProxy
from foreword.testing.mock_server import MockServer, Reply

NOWHERE = "127.0.0.1:1"
SLOW = Reply("one two three four", delay_ms=60_000)


async def until(condition: object, *, what: str) -> None:
    for _ in range(20_000):
        if condition():  # type: ignore[operator]
            return
        await asyncio.sleep(0.005)
    pytest.fail(f"{what} did not happen")


async def test_a_completion_has_everything() -> None:
    reply = Reply("Hello there, my friend.", accepted=2, ids=(0, 7, 8, 9))
    async with MockServer(reply) as server, AsyncClient(server.address) as client:
        completion = await client.generate("Hi", top_logprobs=2, request_id="r-1", max_tokens=50)
    assert completion.text == "Hello there, my friend."
    assert completion.ids == (0, 7, 8, 9)
    assert completion.choices[0].sources == (TokenSource.DRAFT,) * 2 + (TokenSource.TARGET, TokenSource.DRAFT)
    assert completion.usage.verifications == 2
    assert completion.started == Started("r-1", "mock", 1)
    assert completion.finish.reason is FinishReason.STOP
    logprobs = completion.choices[0].logprobs
    assert logprobs is not None
    assert len(logprobs.chosen) == len(logprobs.top) == 4
    assert (server.requests[0].prompt, server.requests[0].max_tokens) == ("Hi", 50)


async def test_events_come_in_order_and_several_choices_are_told_apart() -> None:
    async with MockServer("a b") as server, AsyncClient(server.address) as client:
        events = client.stream([1, 2, 3], n=2, echo=True)
        seen = [event async for event in events]
        completion = await events.completion()
    assert [type(event) for event in seen] == [Started, Delta, Delta, Finish, Delta, Delta, Finish]
    assert seen[0] == Started("mock-1", "mock", 3, (1, 2, 3))
    assert [choice.text for choice in completion.choices] == ["a b", "a b"]


async def test_the_rest_of_a_stream_can_be_collected() -> None:
    async with MockServer("a b c") as server, AsyncClient(server.address) as client:
        stream = client.stream("x")
        await anext(stream)
        await anext(stream)
        assert (await stream.completion()).text == "a b c"


async def test_leaving_a_stream_cancels_the_request() -> None:
    async with MockServer(SLOW) as server, AsyncClient(server.address) as client:
        async with client.stream("x", request_id="left") as events:
            await anext(events)
        await until(lambda: server.cancelled == ["left"], what="the cancellation")
        assert [event async for event in events] == []


async def test_forgetting_a_stream_cancels_the_request() -> None:
    async with MockServer(SLOW) as server, AsyncClient(server.address) as client:
        async for _ in client.stream("x", request_id="forgotten"):
            break
        gc.collect()
        await until(lambda: server.cancelled == ["forgotten"], what="the cancellation")


async def test_cancelling_a_task_cancels_the_request() -> None:
    async with MockServer(SLOW) as server, AsyncClient(server.address) as client:
        task = asyncio.create_task(client.generate("x", request_id="task"))
        await until(lambda: server.requests, what="the request")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: server.cancelled == ["task"], what="the cancellation")


async def test_closing_from_another_task_ends_the_iteration() -> None:
    async with MockServer(SLOW) as server, AsyncClient(server.address) as client:
        stream = client.stream("x")
        await anext(stream)
        waiting = asyncio.create_task(anext(stream, None))
        await asyncio.sleep(0.05)
        await stream.aclose()
        assert await waiting is None


async def test_closing_the_client_ends_its_streams_with_an_error() -> None:
    async with MockServer(SLOW) as server:
        client = AsyncClient(server.address)
        waiting = asyncio.create_task(client.generate("x"))
        await until(lambda: server.requests, what="the request")
        await client.close()
        with pytest.raises(Cancelled, match="closed while a stream was open"):
            await waiting


async def test_a_deadline_ends_the_request_at_both_ends() -> None:
    async with MockServer(SLOW) as server, AsyncClient(server.address, timeout_s=60) as client:
        with pytest.raises(DeadlineExceeded, match=f"the call to {server.address} was not over in time"):
            await client.generate("x", timeout_s=0.3, request_id="late")
        await until(lambda: server.cancelled == ["late"], what="the cancellation")


async def test_errors_are_those_of_the_tree() -> None:
    script = [
        Reply(error=Full("queue: got 9 waiting, wanted at most 8", retry_after_ms=250)),
        Reply(error=InvalidField("top_p", 7.0, "a number up to 1")),
        Reply("a b c", error=EngineFailure("engine: died"), error_after=2),
    ]
    async with MockServer(script) as server, AsyncClient(server.address) as client:
        with pytest.raises(Full) as full:
            await client.generate("x")
        assert (str(full.value), full.value.retry_after_ms) == ("queue: got 9 waiting, wanted at most 8", 250)
        with pytest.raises(InvalidField, match=r"top_p: got 7\.0, wanted a number up to 1"):
            await client.generate("x")
        stream = client.stream("x")
        texts = [event.text for event in [await anext(stream) for _ in range(3)] if isinstance(event, Delta)]
        assert texts == ["a", " b"]
        with pytest.raises(EngineFailure, match="engine: died"):
            await anext(stream)


async def test_ranges_are_the_servers_business_and_types_the_clients() -> None:
    async with MockServer() as server, AsyncClient(server.address) as client:
        with pytest.raises(InvalidField, match="n: got 0, wanted a whole number from 1"):
            await client.generate("x", n=0)
        with pytest.raises(InvalidField, match="max_tokens: got 'many', wanted a whole number"):
            await client.generate("x", max_tokens="many")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="did you mean 'max_tokens'"):
            await client.generate("x", max_token=3)  # type: ignore[call-arg]
        assert server.requests == []


async def test_an_address_that_cannot_be_reached_is_replaced_and_then_passed_over() -> None:
    with MockServer("two") as server, FaultProxy(server.address) as proxy:
        proxy.cut()
        async with AsyncClient([proxy.address, server.address]) as client:
            assert (await client.generate("x", timeout_s=20)).text == "two"
            assert (await client.info()).gamma == 4
            proxy.restore()
            assert (await client.generate("x")).text == "two"
            assert proxy.accepted == 0, "the address that answered comes first"


async def test_a_failure_after_the_first_event_is_not_tried_elsewhere() -> None:
    with MockServer(SLOW) as first, MockServer("second") as second, FaultProxy(first.address) as proxy:
        async with AsyncClient([proxy.address, second.address]) as client:
            stream = client.stream("x")
            assert isinstance(await anext(stream), Started)
            proxy.reset()
            with pytest.raises(Unavailable):
                await anext(stream)
            assert second.requests == []


async def test_a_refusal_is_not_tried_elsewhere() -> None:
    with MockServer(Reply(error=Full("no room"))) as first, MockServer("second") as second:
        async with AsyncClient([first.address, second.address]) as client:
            with pytest.raises(Full):
                await client.generate("x")
        assert second.requests == []


async def test_a_draining_server_is_replaced() -> None:
    with MockServer(Reply(error=Unavailable("drains"))) as first, MockServer("second") as second:
        async with AsyncClient([first.address, second.address]) as client:
            assert (await client.generate("x")).text == "second"


async def test_nobody_there_names_the_address() -> None:
    async with AsyncClient(NOWHERE) as client:
        with pytest.raises(Unavailable, match=f"address: got {NOWHERE}, wanted a server that answers"):
            await client.generate("x")
        with pytest.raises(Unavailable, match=NOWHERE):
            await client.info()
        with pytest.raises(Unavailable, match=NOWHERE):
            await client.abort("r")


async def test_another_kind_of_server_is_named() -> None:
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with AsyncClient(f"127.0.0.1:{port}") as client:
            with pytest.raises(Mismatch, match="wanted a Foreword orchestrator"):
                await client.info()
    finally:
        await server.stop(None)


async def test_what_is_no_event_ends_the_stream_as_a_protocol_fault() -> None:
    async def babble(request: bytes, context: object) -> AsyncIterator[bytes]:
        yield b"\xff\xff"
        await asyncio.sleep(60)

    server = grpc.aio.server()
    methods = {"Generate": grpc.unary_stream_rpc_method_handler(babble)}
    handler = grpc.method_handlers_generic_handler("foreword.v1.GenerationService", methods)
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with AsyncClient(f"127.0.0.1:{port}") as client:
            stream = client.stream("x")
            with pytest.raises(ProtocolFault, match="sent what is no event"):
                await anext(stream)
            assert await anext(stream, None) is None
    finally:
        await server.stop(None)


async def test_aborts_find_their_request_wherever_it_runs() -> None:
    with MockServer() as first, MockServer(SLOW) as second:
        async with (
            AsyncClient(second.address) as other,
            AsyncClient([NOWHERE, first.address, second.address]) as client,
        ):
            stream = other.stream("x", request_id="there")
            await anext(stream)
            assert await client.abort("there") is True
            assert await client.abort("nowhere") is False
            assert (first.aborts, second.aborts) == (["there", "nowhere"],) * 2
            await stream.aclose()


async def test_a_token_goes_with_every_call() -> None:
    async with MockServer() as server, AsyncClient(server.address, token="secret") as client:
        await client.generate("x")
    assert server.metadata[0]["authorization"] == "Bearer secret"


async def test_mutual_tls_and_its_failures(tmp_path: Path) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    server_cert, client_cert = authority.issue_cert("server.test"), authority.issue_cert("client.test")
    pem = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(pem)
    stranger.cert_pem.write_to_path(tmp_path / "stranger.pem")
    client_cert.private_key_pem.write_to_path(tmp_path / "key.pem")
    client_cert.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    credentials = grpc.ssl_server_credentials(
        [(server_cert.private_key_pem.bytes(), server_cert.cert_chain_pems[0].bytes())],
        root_certificates=authority.cert_pem.bytes(),
        require_client_auth=True,
    )
    good = Tls(pem, tmp_path / "cert.pem", tmp_path / "key.pem", server_name="server.test")
    wrong = Tls(tmp_path / "stranger.pem", good.certificate, good.key, server_name="server.test")
    with MockServer("safe", credentials=credentials) as server:
        async with AsyncClient(server.address, tls=good) as client:
            assert (await client.generate("x")).text == "safe"
        for tls in (wrong, Tls(pem, server_name="server.test"), None):
            async with AsyncClient(server.address, tls=tls) as client:
                with pytest.raises(Unavailable):
                    await client.generate("x")


def test_misuse_of_the_constructor_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidField, match=r"address: got \[\], wanted host:port"):
        AsyncClient([])
    with pytest.raises(InvalidField, match=r"address: got '10\.0\.0\.1:5', wanted tls=Tls"):
        AsyncClient("10.0.0.1:5")
    AsyncClient("10.0.0.1:5", insecure=True)
    with pytest.raises(InvalidField, match=r"tls\.authority: got .*, wanted a PEM file that can be read"):
        AsyncClient("10.0.0.1:5", tls=Tls(tmp_path / "none.pem"))
    with pytest.raises(InvalidField, match="a certificate and its key, or neither"):
        AsyncClient("10.0.0.1:5", tls=Tls(certificate=tmp_path / "c.pem"))


def test_the_synchronous_client_does_the_same() -> None:
    with MockServer(Reply("Hello there.", accepted=1)) as server, Client(server.address) as client:
        assert client.generate("Hi").text == "Hello there."
        with client.stream("Hi") as events:
            assert isinstance(next(events), Started)
            assert events.completion().text == "Hello there."
            assert list(events) == []
        assert [type(event) for event in client.stream("Hi", gamma=0)] == [Started, Delta, Delta, Finish]
        assert client.info().model is not None
        assert client.abort("nothing") is False
        with pytest.raises(InvalidField, match="n: got 0"):
            client.generate("x", n=0)


def test_leaving_a_synchronous_stream_cancels_the_request() -> None:
    with MockServer(SLOW) as server, Client(server.address) as client:
        with client.stream("x", request_id="left") as events:
            next(events)
        asyncio.run(until(lambda: server.cancelled == ["left"], what="the cancellation"))


def test_closing_a_synchronous_client_frees_those_who_wait() -> None:
    with MockServer(SLOW) as server:
        client, caught = Client(server.address), list[BaseException]()

        def wait() -> None:
            try:
                client.generate("x")
            except BaseException as error:
                caught.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        asyncio.run(until(lambda: server.requests, what="the request"))
        client.close()
        thread.join(10)
        assert [type(error) for error in caught] == [Cancelled]
        client.close()
        with pytest.raises(RuntimeError, match="the client is closed"):
            client.generate("x")


def test_many_threads_share_a_synchronous_client() -> None:
    with MockServer(lambda request: str(request.prompt) + " done") as server, Client(server.address) as client:
        texts: dict[int, str] = {}
        threads = [
            threading.Thread(target=lambda i=i: texts.update({i: client.generate(f"p{i}").text})) for i in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    assert texts == {i: f"p{i} done" for i in range(8)}
