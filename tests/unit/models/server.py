"""A small HTTP server of files, with the faults that downloads meet."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Site:
    """What the server answers, and what it was asked."""

    pages: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    """Path → (content type, body)."""
    ranges: bool = True
    """Whether it honours ranges."""
    cuts: list[int] = field(default_factory=list)
    """After how many bytes each of the next answers with a file breaks off."""
    asked: list[tuple[str, str | None, str | None]] = field(default_factory=list)
    """(path, Range, Authorization) of every request."""
    url: str = ""


@contextmanager
def serve(site: Site) -> Iterator[Site]:
    """Run the server on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _answer(self, site)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    site.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _answer(request: BaseHTTPRequestHandler, site: Site) -> None:
    wanted = request.headers.get("Range")
    site.asked.append((request.path, wanted, request.headers.get("Authorization")))
    if request.path not in site.pages:
        request.send_error(404)
        return
    kind, body = site.pages[request.path]
    start = 0
    if wanted is not None and site.ranges:
        start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1])  # type: ignore[index]
        if start >= len(body):
            request.send_error(416)
            return
        request.send_response(206)
        request.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
    else:
        request.send_response(200)
    request.send_header("Content-Type", kind)
    request.send_header("Content-Length", str(len(body) - start))
    request.end_headers()
    is_page = kind != "application/zip"
    end = start + site.cuts.pop(0) if site.cuts and not is_page else len(body)
    request.wfile.write(body[start:end])
