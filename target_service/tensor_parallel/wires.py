"""How ranks reach the service that their engine process belongs to.

The engine loop runs where the logits are, on rank 0, perhaps on another machine. The engine process, which the service
started, passes bytes on: whole messages between the service and rank 0, and what any rank writes to standard error.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import socket
import struct
import sys
import threading
from dataclasses import dataclass, field
from enum import IntEnum

from foreword.engine.framing import whole_bytes

_READ_BYTES = 1 << 18
_HELLO = struct.Struct("<B32s")
_HELLO_S = 10.0


class Use(IntEnum):
    """What a connection is for."""

    ENGINE = 1
    """Messages between the service and the engine loop."""
    STDERR = 2
    """Lines for standard error."""


@dataclass(frozen=True, slots=True)
class Wire:
    """Where the engine process listens, and what proves that a connection comes from one of its ranks."""

    host: str
    port: int
    secret: bytes = field(repr=False)

    def connect(self, use: Use) -> socket.socket:
        """Return a connection for this use; raises OSError."""
        sock = socket.create_connection((self.host, self.port), timeout=_HELLO_S)
        sock.settimeout(None)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall(_HELLO.pack(use, self.secret))
        return sock


class Relay:
    """Passes bytes between ranks and a service, in threads that last as long as their connections."""

    def __init__(self, host: str, service: socket.socket, unread: bytes) -> None:
        """Listen on a free port of `host`; `unread` is what was read from `service` and nobody has taken."""
        self._service = service
        self._unread = unread
        self._listener = socket.create_server((host, 0))
        self._secret = secrets.token_bytes(32)
        self._outward: threading.Thread | None = None
        self._lines: list[threading.Thread] = []
        self.wire = Wire(host, self._listener.getsockname()[1], self._secret)
        self._accepting = self._started(self._accept)

    def close(self) -> None:
        """Accept nothing more, and return when everything that ranks sent has been passed on."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join()
        for thread in (self._outward, *self._lines):
            if thread is not None:
                thread.join()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            use = _greeted(sock, self._secret)
            if use is Use.STDERR:
                self._lines.append(self._started(_copy_lines, sock))
            elif use is Use.ENGINE and self._outward is None:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._outward = self._started(_pass_messages, sock, self._service)
                self._started(_pass_bytes, self._service, sock, self._unread)
            else:
                sock.close()

    @staticmethod
    def _started(work: object, *arguments: object) -> threading.Thread:
        assert callable(work)
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        thread.start()
        return thread


def _greeted(sock: socket.socket, secret: bytes) -> Use | None:
    """Return what a new connection is for; None for one that does not come from a rank."""
    sock.settimeout(_HELLO_S)
    try:
        hello = sock.recv(_HELLO.size, socket.MSG_WAITALL)
        use, seen = _HELLO.unpack(hello)
        known = hmac.compare_digest(seen, secret)
        sock.settimeout(None)
        return Use(use) if known else None
    except (OSError, ValueError, struct.error):
        return None


def _pass_messages(rank: socket.socket, service: socket.socket) -> None:
    """Pass whole messages on: a rank that dies amid one leaves nothing half said."""
    buffer = bytearray()
    with rank, contextlib.suppress(OSError):  # a service that is gone needs nothing more
        while data := _received(rank):
            buffer += data
            whole = whole_bytes(buffer)
            if whole:
                service.sendall(memoryview(buffer)[:whole].toreadonly())
                del buffer[:whole]


def _pass_bytes(service: socket.socket, rank: socket.socket, unread: bytes) -> None:
    with contextlib.suppress(OSError):  # a rank that is gone takes nothing more; its group tells why
        rank.sendall(unread)
        while data := _received(service):
            rank.sendall(data)
        rank.shutdown(socket.SHUT_WR)


def _copy_lines(rank: socket.socket) -> None:
    with rank:
        while data := _received(rank):
            os.write(sys.stderr.fileno(), data)


def _received(sock: socket.socket) -> bytes:
    try:
        return sock.recv(_READ_BYTES)
    except ConnectionError:
        return b""
