"""HTTPS: the server shows a certificate; clients show keys, as they have no certificates."""

from __future__ import annotations

import ssl
from pathlib import Path

from foreword.rpc.material import read_pair
from foreword.rpc.tls import TlsFiles
from orchestrator.http.settings import HttpSettings


def pair_for(settings: HttpSettings, service: TlsFiles | None) -> tuple[Path, Path] | None:
    """Return the certificate chain and key that HTTP is served with, None for plaintext.

    Without a pair of its own that is the service's, unless plaintext was asked for.
    """
    if settings.pair is not None:
        return settings.pair
    return None if service is None or settings.insecure else (service.certificate, service.key)


def server_context(pair: tuple[Path, Path]) -> ssl.SSLContext:
    """Return what connections are made with; raises InvalidField for files that do not fit."""
    certificate, key = pair
    read_pair(("http.cert", certificate), ("http.key", key))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key, password="")
    context.set_alpn_protocols(["http/1.1"])
    return context
