"""From settings to what `foreword.rpc` takes."""

from __future__ import annotations

import socket

from foreword.rpc.roles import RolePolicy
from foreword.rpc.server import ServerOptions
from foreword.rpc.tls import TlsFiles
from foreword.settings.base import ServerSettings, TlsSettings


def server_options(settings: ServerSettings) -> ServerOptions:
    """Return how the service's gRPC server listens."""
    return ServerOptions(
        listen=settings.listen,
        tls=tls_files(settings.tls),
        insecure=settings.insecure,
        health_listen=settings.health_listen,
        roles=RolePolicy(settings.tls.roles),
        reflection=settings.reflection,
        address_file=settings.address_file,
        grace_s=settings.grace_s,
    )


def tls_files(tls: TlsSettings) -> TlsFiles | None:
    """Return the files of mutual TLS, None without it."""
    return tls.files


def advertised(settings: ServerSettings, bound: str) -> str:
    """Return the address that peers reach this instance at; `advertise` without a port takes the bound one."""
    host, _, port = bound.rpartition(":")
    if settings.advertise:
        chosen_host, _, chosen_port = settings.advertise.rpartition(":")
        if chosen_host and chosen_port.isdigit():
            return settings.advertise if chosen_port != "0" else f"{chosen_host}:{port}"
        return f"{settings.advertise}:{port}"
    if host in ("0.0.0.0", "[::]", ""):
        return f"{socket.gethostname()}:{port}"
    return bound
