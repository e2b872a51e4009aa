"""Mutual TLS from files, and the rule that plaintext stays on loopback unless it is asked for."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from foreword.errors import InvalidField
from foreword.rpc.material import read_authority, read_pair
from foreword.rpc.options import channel_options
from foreword.rpc.roles import Identity, RolePolicy


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: this process's certificate chain and key, and the authority that signs its peers'."""

    certificate: Path
    key: Path
    authority: Path


def check_files(files: TlsFiles) -> None:
    """Raise InvalidField for a file that cannot be read, holds something else, or a key of another certificate."""
    _read_all(files)


def server_credentials(files: TlsFiles) -> grpc.ServerCredentials:
    """Return credentials that require a client certificate; raises InvalidField as `check_files` does."""
    certificate, key, authority = _read_all(files)
    return grpc.ssl_server_credentials([(key, certificate)], root_certificates=authority, require_client_auth=True)


def channel_credentials(files: TlsFiles) -> grpc.ChannelCredentials:
    """Return a client's credentials; raises InvalidField as `check_files` does."""
    certificate, key, authority = _read_all(files)
    return grpc.ssl_channel_credentials(authority, private_key=key, certificate_chain=certificate)


def open_channel(
    address: str, *, tls: TlsFiles | None, insecure: bool = False, authority: str | None = None
) -> grpc.aio.Channel:
    """Return a channel to a peer; raises InvalidField for plaintext off loopback, unless `insecure`.

    `authority` (`host:port`) is whom the certificate has to name where that is not whom `address` names: an address
    that was found under a DNS name proves nothing, the name does.
    """
    options = channel_options() if authority is None else (*channel_options(), ("grpc.default_authority", authority))
    if tls is not None:
        return grpc.aio.secure_channel(address, channel_credentials(tls), options=options)
    if not insecure and not is_loopback(address):
        raise InvalidField("address", address, "TLS files for a peer off loopback (--tls-cert …), or --insecure")
    return grpc.aio.insecure_channel(address, options=options)


def is_loopback(address: str) -> bool:
    """Tell whether `host:port` names this machine only; a Unix socket does, a name other than localhost does not."""
    if address.startswith("unix:"):
        return True
    host = address.rpartition(":")[0].removeprefix("dns:///").removeprefix("ipv4:").removeprefix("ipv6:")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_listen(field: str, address: str) -> None:
    """Raise InvalidField for what no server can bind: anything but `host:port` or a Unix socket."""
    if address.startswith("unix:"):
        return
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and int(port) <= 65535):
        raise InvalidField(field, address, "host:port, the port from 0 to 65535")


def check_plaintext(address: str, *, insecure: bool) -> None:
    """Raise InvalidField for a plaintext server off loopback that was not asked for."""
    if not insecure and not is_loopback(address):
        wanted = "a loopback address without TLS; give --tls-cert, --tls-key and --tls-ca, or --insecure"
        raise InvalidField("listen", address, wanted)


def peer_identity(context: grpc.aio.ServicerContext[Any, Any], policy: RolePolicy) -> Identity:
    """Return who calls, by the certificate that gRPC has verified."""
    auth = context.auth_context()
    found = [*auth.get("x509_common_name", ()), *auth.get("x509_subject_alternative_name", ())]
    names = dict.fromkeys(name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name) for name in found)
    return policy.identity(tuple(name for name in names if name))


def _read_all(files: TlsFiles) -> tuple[bytes, bytes, bytes]:
    certificate, key = read_pair(("tls.cert", files.certificate), ("tls.key", files.key))
    return certificate, key, read_authority("tls.ca", files.authority)
