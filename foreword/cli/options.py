"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foreword.client import AsyncClient, Client, Tls

_PANEL = "Connection"

Address = Annotated[
    str,
    typer.Option(
        help="Orchestrator, host:port; several separated by commas.", envvar="FOREWORD_ADDRESS", rich_help_panel=_PANEL
    ),
]
Token = Annotated[str | None, typer.Option(help="Bearer token.", envvar="FOREWORD_TOKEN", rich_help_panel=_PANEL)]
Ca = Annotated[
    Path | None, typer.Option("--tls-ca", help="Authority of the server's certificate, PEM.", rich_help_panel=_PANEL)
]
Cert = Annotated[
    Path | None, typer.Option("--tls-cert", help="Certificate chain of this client, PEM.", rich_help_panel=_PANEL)
]
Key = Annotated[Path | None, typer.Option("--tls-key", help="Key of the certificate, PEM.", rich_help_panel=_PANEL)]
Insecure = Annotated[bool, typer.Option("--insecure", help="Allow plaintext off loopback.", rich_help_panel=_PANEL)]
Json = Annotated[bool, typer.Option("--json", help="Write one JSON object to stdout.")]


def connect(
    address: str, *, token: str | None, ca: Path | None, cert: Path | None, key: Path | None, insecure: bool
) -> AsyncClient:
    """Return a client by the options above; TLS is on when one of its files is given."""
    return AsyncClient(address, tls=_tls(ca, cert, key), token=token, insecure=insecure)


def connect_blocking(
    address: str, *, token: str | None, ca: Path | None, cert: Path | None, key: Path | None, insecure: bool
) -> Client:
    """Return a client that waits, by the same options."""
    return Client(address, tls=_tls(ca, cert, key), token=token, insecure=insecure)


def _tls(ca: Path | None, cert: Path | None, key: Path | None) -> Tls | None:
    return Tls(ca, cert, key) if ca or cert or key else None


# Options of commands that start services.

Target = Annotated[
    str, typer.Option(help="Model of the target: embedded, a folder, a .gguf file, a hub id, synthetic:….")
]
Draft = Annotated[
    str,
    typer.Option(
        help="What drafts: lookup, a model, bundled (made for embedded), mixed or mixed:MODEL for both, synthetic:…; "
        "auto takes mixed for the target embedded, else lookup."
    ),
]
Drafts = Annotated[int, typer.Option(help="How many draft services.", min=0)]
NoDraft = Annotated[bool, typer.Option("--no-draft", help="Decode plainly.")]
Gamma = Annotated[int | None, typer.Option(help="Default candidates per block.", show_default="the orchestrator's")]
Dtype = Annotated[
    str,
    typer.Option(
        help="Arithmetic of the target: float32, bfloat16 or float16; drafts take the fastest (on a CPU int8, and "
        "int4 if distilled), or FOREWORD_DRAFT_DTYPE."
    ),
]
Threads = Annotated[int, typer.Option(help="Threads of each engine; 0 leaves it to the libraries.", min=0)]
