"""A file over HTTP into a partial file that a later call goes on with."""

from __future__ import annotations

import re
from http.client import HTTPException
from pathlib import Path

from foreword.errors import Unavailable
from foreword.models.http import HttpSettings, Response, get
from foreword.models.progress import Progress

_CHUNK = 1 << 18
_ATTEMPTS = 5


def download(url: str, partial: Path, *, size: int, settings: HttpSettings, progress: Progress) -> None:
    """Fetch the `size` bytes of `url` to `partial`, from where that file ends.

    Raises Unavailable when the server fails again and again; what has come stays for the next call. Whether the bytes
    are the right ones is for the caller to check: a partial file that is long enough already is taken for a wrong one.
    An OSError is the file system's, which no further attempt would mend.
    """
    partial.parent.mkdir(parents=True, exist_ok=True)
    if _size(partial) >= size:
        partial.unlink()
    for attempt in range(1, _ATTEMPTS + 1):
        before = _size(partial)
        try:
            _attempt(url, partial, settings, progress)
            if _size(partial) >= size:
                return
            reason = "the connection ended early"
        except Unavailable as error:
            reason = error.message
        if attempt == _ATTEMPTS or _size(partial) == before:
            break
    raise Unavailable(f"{url}: stopped at {_size(partial)} bytes, which are kept; call again to go on ({reason})")


def _attempt(url: str, partial: Path, settings: HttpSettings, progress: Progress) -> None:
    held = _size(partial)
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={held}-"} if held else {})
    with get(url, settings, headers=headers) as response:
        start, total = _extent(response)
        if start not in (0, held):
            raise Unavailable(f"{url}: got bytes from {start} on, wanted {held}")
        with partial.open("r+b" if start else "wb") as file:
            file.seek(start)
            done = start
            progress(partial.stem, done, total)
            while chunk := _read(response):
                file.write(chunk)
                done += len(chunk)
                progress(partial.stem, done, total)


def _read(response: Response) -> bytes:
    """Return the next bytes of the body, none at its end; raise Unavailable where the connection fails."""
    try:
        return response.read(_CHUNK)
    except (OSError, HTTPException) as error:
        raise Unavailable(f"{type(error).__name__}: {error}") from error


def _extent(response: Response) -> tuple[int, int | None]:
    """Return where the body begins in the file, and the size of the file; a server may ignore the range asked for."""
    length = response.headers.get("Content-Length")
    if response.status != 206:
        return 0, None if length is None else int(length)
    match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
    if match is None:
        raise Unavailable(f"Content-Range: got {response.headers.get('Content-Range')!r}, wanted bytes FIRST-LAST/SIZE")
    return int(match[1]), None if match[2] == "*" else int(match[2])


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
