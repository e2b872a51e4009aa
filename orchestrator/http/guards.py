"""What stands in front of all endpoints: who may call, and how much they may send."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestrator.http.answering import fail
from orchestrator.http.errors import too_large, unkeyed
from orchestrator.http.page_routes import page_paths

OPEN_PATHS: Final = frozenset({"/health", "/ping", "/openapi.json"}) | page_paths()
"""What needs no key: probes, the description of the API, and the page."""
_SCHEME: Final = "bearer "


class Rooted:
    """Lets the API be found under a prefix, whether the proxy in front strips it or leaves it."""

    def __init__(self, app: ASGIApp, root_path: str) -> None:
        self._app = app
        self._root = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on with the prefix where ASGI wants it."""
        if scope["type"] == "http":
            scope["path"] = self._root + without_root(scope["path"], self._root)
            scope["root_path"] = self._root
        await self._app(scope, receive, send)


class KeyGuard:
    """Lets through whoever shows one of the keys; looks at it before the body is read."""

    def __init__(self, app: ASGIApp, keys: Iterable[str], *, root_path: str) -> None:
        self._app = app
        self._digests = tuple(_digest(key) for key in keys)
        self._root = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or answer 401."""
        if scope["type"] != "http" or without_root(scope["path"], self._root) in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        shown = header(scope, b"authorization")
        if self._knows(shown):
            await self._app(scope, receive, send)
        else:
            await fail(send, unkeyed(shown=bool(shown)))

    def _knows(self, shown: str) -> bool:
        """Compare with every key, in a time that tells nothing of how much of one was right."""
        if not shown.lower().startswith(_SCHEME):
            return False
        digest = _digest(shown[len(_SCHEME) :].strip())
        return any([hmac.compare_digest(digest, known) for known in self._digests])


class BodyLimit:
    """Reads the body, so far as it is allowed to go, before anything else looks at it."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on with the whole body, or answer 413."""
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD", "OPTIONS"):
            await self._app(scope, receive, send)
            return
        body = await self._read(receive, declared=header(scope, b"content-length"))
        if body is None:
            await fail(send, too_large(self._limit))
            return
        waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return waiting.pop() if waiting else await receive()

        await self._app(scope, replay, send)

    async def _read(self, receive: Receive, *, declared: str) -> bytes | None:
        """Return the body, None for one that is too large.

        Of that, as much again is read and dropped: many clients look for an answer only once they have sent all.
        """
        parts, size = list[bytes](), 0
        too_much = declared.isdigit() and int(declared[:20]) > self._limit
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return b""  # the client is gone; whoever writes to it will see
            part = message.get("body", b"")
            size += len(part)
            too_much = too_much or size > self._limit
            if too_much:
                parts.clear()
            else:
                parts.append(part)
            if not message.get("more_body", False) or size > 2 * self._limit:
                return None if too_much else b"".join(parts)


def header(scope: Scope, name: bytes) -> str:
    """Return the first header of a name, an empty text where there is none."""
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


def without_root(path: str, root: str) -> str:
    """Return a path without the prefix that a proxy may have left in front of it."""
    return path[len(root) :] if root and path.startswith(root + "/") else path


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
