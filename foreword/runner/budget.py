"""How large a cache of keys and values is made."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from foreword.errors import InvalidField
from foreword.runner.layers import CacheShape

_log = structlog.stdlib.get_logger(__name__)

PAGE_SIZE = 16


@dataclass(frozen=True, slots=True)
class CacheBudget:
    """Room for tokens over all sessions, in pages."""

    tokens: int | None = None
    """Most tokens; None takes what fits into the share of the memory that is free when the model has been loaded."""
    memory_share: float = 0.4
    page_size: int = PAGE_SIZE
    spare_pages: int = 0
    """Pages beyond those of `tokens`, for users that count tokens and not pages."""

    def pages(self, shape: CacheShape, *, itemsize: int, free_bytes: int) -> int:
        """Return how many pages to make; raises InvalidField if there is no room for them, or for one.

        More than is free is refused: the system would hand it out, and end the process when it is written to.
        """
        token_bytes = shape.token_bytes(itemsize)
        if self.tokens is not None:
            most = free_bytes // token_bytes
            if self.tokens > most:
                raise InvalidField("max_tokens", self.tokens, f"at most {most}, which take the {free_bytes} bytes free")
            pages = -(-self.tokens // self.page_size)
        else:
            pages = int(free_bytes * self.memory_share) // (token_bytes * self.page_size)
        if pages < 1:
            wanted = f"a share of {free_bytes} free bytes that holds a page of {self.page_size * token_bytes} bytes"
            raise InvalidField("memory_share", self.memory_share, wanted)
        pages += self.spare_pages
        _log.info(
            "cache", pages=pages, page_size=self.page_size, mib=round(pages * self.page_size * token_bytes / (1 << 20))
        )
        return pages
