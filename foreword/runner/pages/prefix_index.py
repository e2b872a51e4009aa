"""Full pages of committed tokens, found by a digest of everything from the beginning of the text to their end.

The digest of a page is BLAKE2b-128 over its parent's digest and its tokens; the chain of a text starts at a digest of
the session's salt. Keys and values of a page depend on all that stands before it, so that a page may be used again
exactly where the whole chain is the same (as in vLLM's and nano-vllm's block managers).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from hashlib import blake2b

DIGEST_BYTES = 16


def root(salt: bytes) -> bytes:
    """Return the digest that the chains of all sessions with this salt start from."""
    return blake2b(salt, digest_size=DIGEST_BYTES, person=b"foreword salt").digest()


def chained(parent: bytes, content: bytes) -> bytes:
    """Return the digest of a page whose packed tokens are `content`, after the page of digest `parent`."""
    return blake2b(parent + content, digest_size=DIGEST_BYTES, person=b"foreword page").digest()


class PrefixIndex:
    """Pages by digest, and the order in which those that nobody holds are given up.

    A page is idle while it is in the index and no slot holds it. Idle pages are evicted in the order in which they
    became idle. As slots let go of the last page of a text first, a page goes before the page it follows.
    """

    __slots__ = ("_digests", "_idle", "_pages")

    def __init__(self) -> None:
        self._pages: dict[bytes, int] = {}
        self._digests: dict[int, bytes] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()

    def __contains__(self, page: int) -> bool:
        return page in self._digests

    def __len__(self) -> int:
        return len(self._digests)

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Yield pages with their digests."""
        return iter(self._digests.items())

    @property
    def idle(self) -> OrderedDict[int, None]:
        """Pages that nobody holds, the next to be evicted first; not to be changed."""
        return self._idle

    def find(self, digest: bytes) -> int | None:
        """Return the page of this digest."""
        return self._pages.get(digest)

    def add(self, page: int, digest: bytes) -> None:
        """Enter a page that a slot holds; neither it nor its digest may be in the index."""
        self._pages[digest] = page
        self._digests[page] = digest

    def withdraw(self, page: int) -> None:
        """Take out a page that a slot holds."""
        del self._pages[self._digests.pop(page)]

    def rest(self, page: int) -> None:
        """Note that nobody holds the page any longer."""
        self._idle[page] = None

    def wake(self, page: int) -> None:
        """Note that somebody holds an idle page again."""
        del self._idle[page]

    def evict(self) -> int:
        """Take out the page that is idle longest, of which there has to be one, and return it."""
        page, _ = self._idle.popitem(last=False)
        self.withdraw(page)
        return page
