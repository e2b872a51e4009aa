"""The engine's side: batches in and out without threads."""

from __future__ import annotations

import select
import socket
from collections.abc import Sequence
from typing import Any

from foreword.engine.framing import Kind, Start, Unpacker, pack
from foreword.errors import ForewordError

_READ_BYTES = 1 << 18


class EngineStopped(Exception):
    """The service wants the engine to end, or is gone; not an error. An engine lets it pass."""


class EngineChannel:
    """Receives work and sends results; used by one thread."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(True)
        self._socket = sock
        self._unpacker = Unpacker()
        self._ended = False
        self.is_ready = False
        """Whether `ready` has been called."""

    def start(self) -> Start:
        """Wait for the first message: what to run. Raises EngineStopped if the service is gone."""
        while True:
            for kind, value in self._read(None):
                if kind is Kind.START and isinstance(value, Start):
                    return value
            if self._ended:
                raise EngineStopped

    def hand_over(self) -> tuple[socket.socket, bytes]:
        """Return the socket, for somebody else to go on with, and what was read from it and is not complete.

        Raises EngineStopped if the service has asked for the end or is gone.
        """
        if self._ended:
            raise EngineStopped
        return self._socket, self._unpacker.rest

    def ready(self, info: object = None) -> None:
        """Tell the service that the engine has started; `info` is what it wants to say about itself."""
        self.is_ready = True
        self._socket.sendall(pack(Kind.READY, info))

    def receive(self, timeout_s: float | None = None) -> list[Any]:
        """Return all batches that are there, after waiting up to `timeout_s` for the first; None waits without end.

        With 0 it only looks. The list may be empty. Raises EngineStopped, once nothing is left to receive, when the
        service has asked for the end or is gone.
        """
        batches = [] if self._ended else [value for kind, value in self._read(timeout_s) if kind is Kind.BATCH]
        if not batches and self._ended:
            raise EngineStopped
        return batches

    def send(self, batch: object) -> None:
        """Send a batch; waits only while the service is behind in reading. Raises EngineStopped if it is gone."""
        try:
            self._socket.sendall(pack(Kind.BATCH, batch))
        except (BrokenPipeError, ConnectionResetError) as error:
            raise EngineStopped from error

    def fail(self, error: ForewordError) -> None:
        """Tell the service why the engine ends."""
        try:
            self._socket.sendall(pack(Kind.FAILED, error))
        except (BrokenPipeError, ConnectionResetError):
            self._ended = True  # nobody is left to be told

    def _read(self, timeout_s: float | None) -> Sequence[tuple[Kind, Any]]:
        """Wait for bytes, then take all that are there; returns complete messages, notes the end."""
        readable, _, _ = select.select([self._socket], [], [], timeout_s)
        messages: list[tuple[Kind, Any]] = []
        while readable and not self._ended:
            try:
                data = self._socket.recv(_READ_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            except ConnectionResetError:
                data = b""
            messages.extend(self._unpacker.feed(data))
            if not data or any(kind is Kind.STOP for kind, _ in messages):
                self._ended = True
            if len(data) < _READ_BYTES:  # nothing is left; to ask for it would cost as much as what was read
                break
        return messages
