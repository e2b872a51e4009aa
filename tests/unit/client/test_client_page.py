"""The Python of docs/client.md runs as it stands there, but for the address, and prints what the page says it does."""

from __future__ import annotations

import re
from pathlib import Path

import grpc
import pytest
import trustme

import foreword
from foreword.errors import Full, Unavailable
from foreword.protocol.generation import GenerateRequest
from foreword.testing.mock_server import MockServer, Reply, Script

PAGE = (Path(foreword.__file__).parents[1] / "docs" / "client.md").read_text()
WORDS = ("Hello", " there,", " my", " friend.")


def goes_on(request: GenerateRequest) -> Reply:
    """Break off after two tokens, and go on behind what the request has."""
    come = len(request.resume)
    error = Unavailable("the network is gone") if come < 2 else None
    return Reply(pieces=WORDS[come:], ids=(7, 8, 9, 10)[come:], error=error, error_after=2)


def blocks() -> list[tuple[str, str]]:
    """Return the heading above each block of Python, and the block."""
    parts = re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return [(title, code) for title, text in parts for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL)]


SCRIPTS: dict[str, Script] = {
    "Cancelling": Reply("Hello there.", delay_ms=60_000),
    "Retries": [Reply(error=Full("no room", retry_after_ms=1)), Reply("Hello there.")],
    "Resuming": goes_on,
}
PRINTED = {
    "Two clients": "1 Hello there. STOP 1.0\nTrue mock-1\n",
    "Streaming": "Hello",
    "Cancelling": "cancelled\n",
    "Retries": "again, because of Full\nHello there.\n",
    "Resuming": "goes on behind 2 tokens, because of Unavailable\nHello there, my friend.\n",
    "Certificates and tokens": "Hello there.\n",
    "Errors": "max_tokens 'many' a whole number",
    "Tests of your own": "",
}


def credentials(folder: Path) -> grpc.ServerCredentials:
    """Write what the page names, and return what a server of the same authority shows."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    server, client = authority.issue_cert("127.0.0.1"), authority.issue_cert("client.example")
    client.private_key_pem.write_to_path(str(folder / "client.key"))
    (folder / "client.pem").write_bytes(b"".join(blob.bytes() for blob in client.cert_chain_pems))
    chain = b"".join(blob.bytes() for blob in server.cert_chain_pems)
    pair = (server.private_key_pem.bytes(), chain)
    return grpc.ssl_server_credentials([pair], authority.cert_pem.bytes(), require_client_auth=True)


@pytest.mark.parametrize(("title", "block"), blocks(), ids=[title for title, _ in blocks()])
def test_its_python_runs(
    title: str, block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = credentials(tmp_path) if "Tls(" in block else None
    script = SCRIPTS.get(title, Reply("Hello there.", accepted=2))
    with MockServer(script, credentials=shown) as server:
        exec(compile(block.replace("127.0.0.1:50051", server.address), "docs/client.md", "exec"), {"__name__": "page"})
    assert PRINTED[title] in capsys.readouterr().out


def test_every_section_with_python_is_looked_at() -> None:
    assert {title for title, _ in blocks()} == PRINTED.keys()


def test_it_names_what_the_clients_have() -> None:
    table = PAGE[PAGE.index("| method |") : PAGE.index("Connections are")]
    public = {name for name in vars(foreword.Client) if not name.startswith("_")}
    assert set(re.findall(r"^\| `(\w+)\(", table, re.MULTILINE)) == public
