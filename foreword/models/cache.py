"""What the file system refuses in the cache of models, as an error that says where and why."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from foreword.errors import Unavailable


@contextmanager
def kept_in(cache: Path) -> Iterator[None]:
    """Turn OSError into Unavailable: no permission, no space, a file where a folder should be, a read-only disk."""
    try:
        yield
    except (ConnectionError, TimeoutError):  # of a socket or a pipe, and no matter of the file system
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        place = Path(str(error.filename)) if error.filename is not None else cache
        if place != cache and cache not in place.parents and place not in cache.parents:
            raise Unavailable(f"{place}: {reason}") from error
        where = "" if place == cache else f"{place}: "
        raise Unavailable(
            f"cache: got {cache}, wanted a folder that can be written ({where}{reason}); "
            "flag --cache or FOREWORD_CACHE names another"
        ) from error
