"""The HTTP API's life with its service: keys, prefixes, certificates, before it is ready, while it drains."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme

from foreword.errors import NotFound, Unavailable
from orchestrator.http.settings import HttpSettings
from tests.integration.orchestrator.services import start_orchestrator, start_target
from tests.integration.orchestrator.test_service import all_closed
from tests.integration.orchestrator.web import client_of, events_in, free_address, web

BODY: dict[str, Any] = {"prompt": "w1", "max_tokens": 4, "temperature": 0}


async def test_keys(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("second\n")
    async with (
        web(tmp_path, drafts=0, http={"api_keys": ("first",), "api_keys_file": keys}) as served,
        client_of(served.url) as client,
    ):
        for path in ("/health", "/ping", "/openapi.json"):
            assert (await client.get(path)).status_code == 200
        for path in ("/v1/models", "/metrics", "/info", "/version", "/nowhere"):
            answer = await client.get(path)
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")
            assert answer.headers["www-authenticate"] == "Bearer"
        assert (await client.post("/v1/completions", content=b"{")).status_code == 401
        for key, status in (("first", 200), ("second", 200), ("third", 401)):
            headers = {"authorization": f"Bearer {key}"}
            assert (await client.post("/v1/completions", json=BODY, headers=headers)).status_code == status
        document = (await client.get("/openapi.json")).json()
        assert document["paths"]["/v1/completions"]["post"]["security"]
        assert "security" not in document["paths"]["/health"]["get"]


async def test_a_prefix_works_whether_the_proxy_strips_it_or_not(tmp_path: Path) -> None:
    async with (
        web(tmp_path, drafts=0, http={"root_path": "/llm", "api_keys": ("k",)}) as served,
        client_of(served.url, headers={"authorization": "Bearer k"}) as client,
    ):
        for path in ("/v1/completions", "/llm/v1/completions"):
            assert (await client.post(path, json=BODY)).status_code == 200
        for path in ("/health", "/llm/health"):
            assert (await client.get(path, headers={"authorization": ""})).status_code == 200
        assert (await client.get("/openapi.json")).json()["servers"] == [{"url": "/llm"}]


async def test_certificates(tmp_path: Path) -> None:
    authority = trustme.CA()
    cert, key, ca = tmp_path / "cert", tmp_path / "key", tmp_path / "ca"
    issued = authority.issue_cert("127.0.0.1")
    cert.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    authority.cert_pem.write_to_path(str(ca))

    async with (
        web(tmp_path, drafts=0, http={"cert": cert, "key": key}) as served,
        client_of(served.url, verify=ssl.create_default_context(cafile=str(ca))) as client,
    ):
        assert served.url.startswith("https://")
        assert (await client.post("/v1/completions", json=BODY)).status_code == 200


async def test_before_it_is_ready_and_while_it_drains(tmp_path: Path) -> None:
    target_address, http = free_address(), free_address()
    target = start_target(tmp_path, listen=target_address)
    await target.ready()
    await target.stop()
    orchestrator = start_orchestrator(
        tmp_path, [target], [], grace_s=120, http=HttpSettings(listen=http, address_file=tmp_path / "http")
    )
    async with client_of(f"http://{http}") as client:
        async with asyncio.timeout(120):
            while True:
                try:
                    answer = await client.get("/health")
                    break
                except Exception:
                    await asyncio.sleep(0.01)
        assert answer.status_code == 503
        assert "retry-after" in answer.headers
        assert target_address not in answer.text
        for path in ("/v1/completions", "/tokenize"):
            refused = await client.post(path, json={"prompt": "w1"})
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "unavailable")
        assert (await client.get("/v1/models")).status_code == 503
        assert (await client.get("/info")).json()["model"] is None
        assert not (tmp_path / "http").exists()

        target = start_target(tmp_path, listen=target_address)
        await target.ready()
        await orchestrator.ready()
        assert (tmp_path / "http").read_text().strip() == http
        assert (await client.get("/health")).status_code == 200

        body = BODY | {"max_tokens": 300, "stream": True, "ignore_eos": True}
        async with client.stream("POST", "/v1/completions", json=body) as answer:
            pieces = answer.aiter_text()
            text = await anext(pieces)
            stopping = asyncio.create_task(orchestrator.stop())
            async with asyncio.timeout(120):
                while (await client.get("/health")).status_code != 503:  # noqa: ASYNC110 - the other end drains
                    await asyncio.sleep(0.001)
            refused = await client.post("/v1/completions", json=BODY)
            assert (refused.status_code, refused.json()["error"]["type"]) == (503, "unavailable_error")
            text += "".join([piece async for piece in pieces])
        await stopping
        *_, last, done = events_in(text)
        assert (last["choices"][0]["finish_reason"], done) == ("length", "[DONE]")
    await target.stop()


async def test_a_target_that_is_lost_for_good_ends_a_stream_with_an_error(tmp_path: Path) -> None:
    async with (
        web(tmp_path, drafts=0, target_patience_s=0.2) as served,
        client_of(served.url) as client,
    ):
        body = BODY | {"max_tokens": 400, "stream": True, "ignore_eos": True}
        async with client.stream("POST", "/v1/completions", json=body) as answer:
            pieces = answer.aiter_text()
            text = await anext(pieces)
            await served.served.targets[0].stop()
            text += "".join([piece async for piece in pieces])
        *_, last = events_in(text)
        assert last["error"]["code"] == "unavailable"
        assert (await client.get("/health")).status_code == 503


async def test_too_many_requests(tmp_path: Path) -> None:
    async with (
        web(tmp_path, drafts=1, max_requests=1) as served,
        client_of(served.url) as client,
    ):
        body = BODY | {"max_tokens": 400, "stream": True, "ignore_eos": True}
        async with client.stream("POST", "/v1/completions", json=body) as answer:
            await anext(answer.aiter_text())
            refused = await client.post("/v1/completions", json=BODY)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert refused.json()["error"]["code"] == "rate_limit_exceeded"
        await all_closed(served.served)


async def test_a_deadline_of_a_proxy(tmp_path: Path) -> None:
    async with (
        web(tmp_path, drafts=1) as served,
        client_of(served.url, headers={"x-envoy-expected-rq-timeout-ms": "50"}) as client,
    ):
        answer = await client.post("/v1/completions", json=BODY | {"max_tokens": 500, "ignore_eos": True})
        assert (answer.status_code, answer.json()["error"]["code"]) == (504, "deadline_exceeded")
        await all_closed(served.served)


@pytest.mark.parametrize("switch", [True, False])
async def test_a_port_that_is_taken_stops_the_start(tmp_path: Path, switch: bool) -> None:
    target = await start_target(tmp_path).ready()
    first = start_orchestrator(tmp_path, [target], [], "first", http=HttpSettings(listen=(http := free_address())))
    await first.ready()
    second = start_orchestrator(
        tmp_path,
        [target],
        [],
        "second",
        http=HttpSettings(listen=http if switch else "no.such.host.invalid:1", insecure=True),
    )
    with pytest.raises(Unavailable, match=r"http\.listen: got .* which cannot be bound"):
        await second.ready()
    await first.stop()
    await target.stop()


async def test_without_the_extra_grpc_is_served_and_http_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import foreword.extras

    monkeypatch.setattr(foreword.extras, "find_spec", lambda name: None if name in ("fastapi", "uvicorn") else name)
    target = await start_target(tmp_path).ready()
    without = await start_orchestrator(tmp_path, [target], [], "without").ready()
    await without.stop()
    wanting = start_orchestrator(tmp_path, [target], [], "wanting", http=HttpSettings(listen="127.0.0.1:0"))
    with pytest.raises(NotFound, match=r"needs fastapi; install the extra: pip install '\.\[http\]'"):
        await wanting.ready()
    await target.stop()
