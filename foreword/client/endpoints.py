"""Where a client calls: one channel for each address, the address that answered last first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakSet

import grpc
import grpc.aio

from foreword.errors import InvalidField
from foreword.rpc.material import read_authority, read_pair
from foreword.rpc.options import channel_options
from foreword.rpc.tls import is_loopback

_SCHEMES = ("unix:", "dns:", "ipv4:", "ipv6:", "xds:")
"""Beginnings of names that gRPC resolves by rules of their own."""
_TLS_WANTED = "tls=Tls(…) for a server off loopback (--tls-ca), or insecure=True (--insecure)"


@dataclass(frozen=True, slots=True)
class Tls:
    """How the server is checked and how the client shows who it is, by PEM files."""

    authority: Path | None = None
    """Who signs the server's certificate; None takes the roots that gRPC brings."""
    certificate: Path | None = None
    """The client's chain, for servers that require one."""
    key: Path | None = None
    server_name: str | None = None
    """The name that the server's certificate is checked for, where it is not that of the address."""


class Endpoints:
    """The addresses of one deployment; channels are opened when they are first used, on the loop that uses them.

    A text may hold several addresses, separated by commas. Raises InvalidField for no address or what is none, for a
    PEM file that is none or a key of another certificate, for a token that no header can carry, and for plaintext off
    loopback unless `insecure`.
    """

    def __init__(self, addresses: str | Sequence[str], *, tls: Tls | None, token: str | None, insecure: bool) -> None:
        self._addresses = _split(addresses)
        if not self._addresses or not all(isinstance(a, str) and a for a in self._addresses):
            raise InvalidField("address", addresses, "host:port, or several: a list, or separated by commas")
        self._credentials = None if tls is None else _credentials(tls)
        self._server_name = None if tls is None else tls.server_name
        for address in self._addresses:
            _check_address(address)
            if tls is None and not insecure and not is_loopback(address):
                raise InvalidField("address", address, _TLS_WANTED)
        if token is not None and not (token.isascii() and token.isprintable()):
            # The message may be logged: it keeps the secret.
            raise InvalidField("token", f"{len(token)} characters", "printable ASCII characters, as HTTP headers have")
        self.metadata: tuple[tuple[str, str], ...] = () if token is None else (("authorization", f"Bearer {token}"),)
        """What goes with every call."""
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._calls: WeakSet[grpc.aio.Call] = WeakSet()

    @property
    def addresses(self) -> tuple[str, ...]:
        """All addresses, the one that answered last first."""
        return tuple(self._addresses)

    def channel(self, address: str) -> grpc.aio.Channel:
        """Return the channel to `address`."""
        if address not in self._channels:
            self._channels[address] = self._open(address)
        return self._channels[address]

    def prefer(self, address: str) -> None:
        """Call `address` first from now on."""
        self._addresses.sort(key=lambda known: known != address)

    def track(self, call: grpc.aio.Call) -> None:
        """Remember a call, to cancel it when the channels are closed: gRPC leaves some waiting for ever."""
        self._calls.add(call)

    async def close(self) -> None:
        """Cancel the calls that run and close all channels."""
        for call in list(self._calls):
            call.cancel()
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            await channel.close()

    def _open(self, address: str) -> grpc.aio.Channel:
        if self._credentials is None:
            return grpc.aio.insecure_channel(address, options=channel_options())
        override = [] if self._server_name is None else [("grpc.ssl_target_name_override", self._server_name)]
        return grpc.aio.secure_channel(address, self._credentials, options=[*channel_options(), *override])


def _split(addresses: object) -> list[str]:
    """Return the items of a list, or the addresses of a text; a list behind `ipv4:` or `ipv6:` is one name to gRPC."""
    if not isinstance(addresses, str):
        return list(addresses) if isinstance(addresses, Iterable) else []
    if addresses.startswith(("ipv4:", "ipv6:")):
        return [addresses]
    return [part.strip() for part in addresses.split(",") if part.strip()]


def _check_address(address: str) -> None:
    """Raise InvalidField for what gRPC would take for another place: it calls port 99999 modulo 65536."""
    if address.startswith(_SCHEMES):
        return
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
        raise InvalidField("address", address, "host:port, the port from 1 to 65535")


def _credentials(tls: Tls) -> grpc.ChannelCredentials:
    if (tls.certificate is None) != (tls.key is None):
        given = "certificate" if tls.key is None else "key"
        wanted = "a certificate and its key, or neither (--tls-cert, --tls-key)"
        raise InvalidField(f"tls.{given}", str(getattr(tls, given)), wanted)
    chain = key = authority = None
    if tls.certificate is not None and tls.key is not None:
        chain, key = read_pair(("tls.certificate", tls.certificate), ("tls.key", tls.key))
    if tls.authority is not None:
        authority = read_authority("tls.authority", tls.authority)
    return grpc.ssl_channel_credentials(authority, private_key=key, certificate_chain=chain)
