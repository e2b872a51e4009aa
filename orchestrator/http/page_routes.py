"""The page at /: a prompt box and what a person watching wants to see, from files of this package alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files
from typing import Final

from fastapi import APIRouter
from starlette.responses import Response

FOLDER: Final = "playground"
TYPES: Final[Mapping[str, str]] = {
    "index.html": "text/html; charset=utf-8",
    "playground.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "main.js": "text/javascript; charset=utf-8",
    "api.js": "text/javascript; charset=utf-8",
    "writing.js": "text/javascript; charset=utf-8",
    "charts.js": "text/javascript; charset=utf-8",
}
"""The files that are served, and what each is."""
_HEADERS: Final = {
    "cache-control": "no-cache",
    # Nothing from elsewhere. Texts of a model never become markup: they are added as text, and no script runs inline.
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}


def page_paths() -> frozenset[str]:
    """Return the paths of the page, which need no key: it asks for one, and sends it with its calls."""
    return frozenset(map(_path, TYPES))


def page_routes() -> APIRouter:
    """Return the routes of the page; no part of the API, so its description leaves them out."""
    router = APIRouter(include_in_schema=False)
    for name, kind in TYPES.items():
        router.add_api_route(_path(name), _file(name, kind), methods=["GET"])
    return router


def _path(name: str) -> str:
    return "/" if name == "index.html" else f"/{FOLDER}/{name}"


def _file(name: str, kind: str) -> Callable[[], Awaitable[Response]]:
    content = files("orchestrator").joinpath(FOLDER, name).read_bytes()

    async def serve() -> Response:
        return Response(content, headers={**_HEADERS, "content-type": kind})

    return serve
