"""The page pool: which pages each slot's tokens lie in, and which beginnings of texts are shared.

    slot 0:  [ 4 ][ 7 ][ 2 ]       pages 4 and 7 are full, committed and in the prefix index
    slot 1:  [ 4 ][ 7 ][ 9 ]       it began with the same two pages: they are held twice
    slot 2:  [ 4 ][ 7 ][ 9 ]       a fork of slot 1: page 9 is full only in part, and shared all the same
    unused:  0 1 3 5 6             idle: 8, a page of the index that nobody holds

Slots share pages in two ways. By committed tokens: a page enters the index when it is full and its tokens are
committed; the pool compares them with the tokens that were computed, so that what was rejected cannot get in. And as
forks, that begin with whatever another slot holds. A slot that writes into a page which others hold gets a copy first.
"""

from __future__ import annotations

from collections.abc import Sequence

from foreword.errors import Full, InvalidField
from foreword.runner.checks import check_truncation, taken_slot, unknown_slot
from foreword.runner.pages.integrity import check_pages
from foreword.runner.pages.prefix_index import chained, root
from foreword.runner.pages.reservation import Grown, Reservation, cut
from foreword.runner.pages.slot import SlotPages, packed
from foreword.runner.pages.stock import PageStock


class PagePool:
    """Tables of pages over slots; no keys or values.

    Every method raises InvalidField for a slot, id or length out of range, before anything changes.
    """

    __slots__ = ("_page_size", "_slots", "_stock")

    def __init__(self, pages: int, page_size: int) -> None:
        if pages < 1:
            raise InvalidField("pages", pages, "a whole number from 1")
        if page_size < 1:
            raise InvalidField("page_size", page_size, "a whole number of tokens from 1")
        self._page_size = page_size
        self._stock = PageStock(pages)
        self._slots: dict[int, SlotPages] = {}

    @property
    def page_size(self) -> int:
        """Tokens of a page."""
        return self._page_size

    @property
    def pages(self) -> int:
        """Pages in all."""
        return self._stock.pages

    @property
    def free(self) -> int:
        """Pages that slots can be given: unused, or idle in the prefix index."""
        return self._stock.free

    @property
    def cached(self) -> int:
        """Pages in the prefix index, held or idle."""
        return len(self._stock.index)

    @property
    def tokens(self) -> int:
        """Tokens over all slots; those in shared pages count for each slot."""
        return sum(len(slot.tokens) for slot in self._slots.values())

    def open(self, slot: int, *, salt: bytes = b"") -> None:
        """Start an empty slot, which shares pages with slots of the same salt only."""
        if slot in self._slots:
            raise taken_slot(slot)
        self._slots[slot] = SlotPages([root(salt)])

    def close(self, slot: int) -> None:
        """Let go of a slot's pages; those in the index stay there until the room is needed."""
        cut(self._known(slot), 0, stock=self._stock, page_size=self._page_size)
        del self._slots[slot]

    def length(self, slot: int) -> int:
        """Return how many tokens the slot holds."""
        return len(self._known(slot).tokens)

    def table(self, slot: int) -> Sequence[int]:
        """Return the slot's pages in the order of its tokens; valid until the pool is next changed."""
        return self._known(slot).table

    def truncate(self, slot: int, length: int) -> None:
        """Forget the tokens from position `length` on; O(pages let go of)."""
        held = self._known(slot)
        if length == len(held.tokens):
            return
        check_truncation(length, len(held.tokens))
        cut(held, length, stock=self._stock, page_size=self._page_size)

    def wanted(self, slot: int, length: int) -> int:
        """Return how many free pages it takes for the slot to hold `length` tokens, 0 if it holds them already."""
        return self._wanted(self._known(slot), length)

    def reserve(self, batch: Sequence[tuple[int, Sequence[int]]]) -> Reservation:
        """Append tokens to slots, each once in a batch; all of them or, when pages are lacking, none and raise Full.

        The result is a context for the pass that computes these tokens, and says what it has to copy first.
        """
        parts = [(self._known(slot), packed(tokens)) for slot, tokens in batch]
        wanted = 0
        for held, tokens in parts:
            wanted += self._wanted(held, len(held.tokens) + len(tokens))
        if wanted > self._stock.free:
            raise Full(f"pages: {wanted} wanted for the tokens of {len(batch)} slots, {self._stock.free} are free")
        reservation = Reservation(self._stock, self._page_size)
        for held, tokens in parts:
            before = len(held.tokens)
            shared = self._writable(held, reservation) if before % self._page_size else None
            held.tokens.extend(tokens)
            while len(held.table) * self._page_size < len(held.tokens):
                held.table.append(self._stock.take())
            reservation.grown.append(Grown(held, before, shared))
        return reservation

    def adopt(self, slot: int, tokens: Sequence[int]) -> int:
        """Let an empty slot begin with the indexed pages of `tokens`; return the length it holds then.

        At least the last token is left to be computed, for its logits are what is wanted. O(pages of the hit).
        """
        held = self._known(slot)
        if held.tokens:
            raise InvalidField("slot", slot, f"an empty slot, this one holds {len(held.tokens)} tokens")
        most = max(0, len(tokens) - 1) // self._page_size
        text = packed(tokens[: most * self._page_size])
        for _ in range(most):
            first = len(held.tokens)
            content = text[first : first + self._page_size]
            digest = chained(held.chain[-1], content.tobytes())
            page = self._stock.index.find(digest)
            if page is None:
                break
            self._stock.hold(page)
            held.table.append(page)
            held.chain.append(digest)
            held.tokens.extend(content)
        return len(held.tokens)

    def fork(self, source: int, slot: int, length: int) -> None:
        """Let an empty slot begin with the first `length` tokens of another one, and share its pages; O(length)."""
        origin, held = self._known(source), self._known(slot)
        if held.tokens or source == slot:
            raise InvalidField("slot", slot, f"an empty slot, this one holds {len(held.tokens)} tokens")
        if held.chain[0] != origin.chain[0]:
            raise InvalidField("slot", slot, f"a slot of the same salt as the slot {source}")
        check_truncation(length, len(origin.tokens))
        held.tokens = origin.tokens[:length]
        held.table = origin.table[: -(-length // self._page_size)]
        held.chain = origin.chain[: 1 + length // self._page_size]
        for page in held.table:
            self._stock.hold(page)

    def commit(self, slot: int, tokens: Sequence[int]) -> None:
        """Enter the full pages of a slot's first len(tokens) tokens, as far as it holds them, into the index.

        `tokens` have to be what the slot holds; pages that were not committed before are compared, and InvalidField
        raised for others. Where the index has a page of the same text, the slot takes that one and its own becomes
        free: equal prompts read at the same time end up in the same pages, and whoever holds a page holds those before
        it too, so that none is evicted under a later one. O(new pages).
        """
        held = self._known(slot)
        size, done = self._page_size, held.committed
        full = min(len(tokens), len(held.tokens)) // size
        if full <= done:
            return
        text = held.tokens[done * size : full * size]
        if text != packed(tokens[done * size : full * size]):
            raise InvalidField("tokens", f"others from position {done * size} on", f"what slot {slot} holds there")
        for number in range(done, full):
            first = (number - done) * size
            self._enter(held, number, chained(held.chain[-1], text[first : first + size].tobytes()))

    def check_integrity(self) -> None:
        """Raise AssertionError, with what is wrong, unless every page is where it should be; O(pages and tokens)."""
        check_pages(self._slots, self._stock, page_size=self._page_size)

    def _known(self, slot: int) -> SlotPages:
        held = self._slots.get(slot)
        if held is None:
            raise unknown_slot(slot)
        return held

    def _wanted(self, held: SlotPages, length: int) -> int:
        before = len(held.tokens)
        if length <= before:
            return 0
        wanted = -(-length // self._page_size) - len(held.table)
        if before % self._page_size and self._stock.holders[held.table[-1]] > 1:
            wanted += 1  # the copy
        return wanted

    def _writable(self, held: SlotPages, reservation: Reservation) -> int | None:
        """Make sure that a slot's last page is its own; return the page that a copy has taken the place of."""
        page = held.table[-1]
        if self._stock.holders[page] == 1:
            if page in self._stock.index:
                # Its end is written over. To save it would take a page that there may not be; pages that follow it
                # in the index cannot be reached until it is entered again, and are evicted in their turn.
                self._stock.index.withdraw(page)
            return None
        held.table[-1] = self._stock.take()
        reservation.copies.append((page, held.table[-1]))
        return page

    def _enter(self, held: SlotPages, number: int, digest: bytes) -> None:
        """Commit one page of a slot, the first that is not."""
        index, own = self._stock.index, held.table[number]
        known = index.find(digest)
        if known is None:
            index.add(own, digest)
        elif known != own:
            self._stock.hold(known)
            held.table[number] = known
            self._stock.release(own)
        held.chain.append(digest)
