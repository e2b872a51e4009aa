"""All pages of a cache: how many slots hold each, which are unused, and which only the prefix index keeps."""

from __future__ import annotations

from foreword.runner.pages.prefix_index import PrefixIndex


class PageStock:
    """Counts who holds each page; a page that nobody holds is unused, or idle in the prefix index."""

    __slots__ = ("holders", "index", "pages", "unused")

    def __init__(self, pages: int) -> None:
        self.pages = pages
        self.holders: list[int] = []
        """By page: how many slots have it in their tables. Only as long as pages have been in use, so that the start
        of a large pool costs nothing."""
        self.unused: list[int] = []
        """Pages given back; taken from its end, so that the page freed last, which caches know best, is the next."""
        self.index = PrefixIndex()

    @property
    def free(self) -> int:
        """Pages that can be taken."""
        return self.pages - len(self.holders) + len(self.unused) + len(self.index.idle)

    def take(self) -> int:
        """Return a page with one holder and no content to rely on; there has to be a free one."""
        if self.unused:
            page = self.unused.pop()
        elif len(self.holders) < self.pages:
            page = len(self.holders)
            self.holders.append(0)
        else:
            page = self.index.evict()
        self.holders[page] = 1
        return page

    def hold(self, page: int) -> None:
        """Add a holder to a page that is held, or idle in the index."""
        if self.holders[page] == 0:
            self.index.wake(page)
        self.holders[page] += 1

    def release(self, page: int) -> None:
        """Take a holder off; after the last, a page in the index is idle and any other unused."""
        self.holders[page] -= 1
        if self.holders[page]:
            return
        if page in self.index:
            self.index.rest(page)
        else:
            self.unused.append(page)
