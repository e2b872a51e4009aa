"""What is always true of a page pool between two calls; tests check it after every step."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping

from foreword.runner.pages.prefix_index import chained
from foreword.runner.pages.slot import SlotPages
from foreword.runner.pages.stock import PageStock


def check_pages(slots: Mapping[int, SlotPages], stock: PageStock, *, page_size: int) -> None:
    """Raise AssertionError for the first thing that is wrong: a page lost, counted wrongly, or found under a lie."""
    _check_stock(stock)
    held = Counter(page for slot in slots.values() for page in slot.table)
    for page, holders in enumerate(stock.holders):
        _ensure(holders == held[page], f"page {page} counts {holders} holders and is in {held[page]} tables")
    shared = {page for page, holders in held.items() if holders > 1}
    _check_shared(slots, shared, page_size=page_size)
    for number, slot in slots.items():
        _check_slot(f"slot {number}", slot, stock, page_size=page_size)


def _check_stock(stock: PageStock) -> None:
    index = stock.index
    unused, idle = set(stock.unused), set(index.idle)
    _ensure(len(unused) == len(stock.unused), "a page is unused twice")
    _ensure(not unused & idle, f"pages {unused & idle} are unused and idle")
    for page, holders in enumerate(stock.holders):
        _ensure(
            (holders == 0) == (page in unused or page in idle), f"page {page} with {holders} holders is lost or free"
        )
    for page, digest in index:
        _ensure(page not in unused, f"page {page} is unused and in the index")
        _ensure(index.find(digest) == page, f"page {page} is in the index and not found by its digest")
    _ensure(all(page in index for page in idle), f"pages {[p for p in idle if p not in index]} are idle, not indexed")
    taken = sum(1 for holders in stock.holders if holders)
    _ensure(len(stock.holders) <= stock.pages, f"{len(stock.holders)} pages have been used, there are {stock.pages}")
    _ensure(stock.free == stock.pages - taken, f"{stock.free} of {stock.pages} free, {taken} held")


def _check_shared(slots: Mapping[int, SlotPages], shared: set[int], *, page_size: int) -> None:
    """What slots have in one page is the same, and so is all that stands before it, as far as each of them goes."""
    texts: dict[int, tuple[bytes, array[int]]] = {}
    for name, slot in slots.items():
        for number, page in enumerate(slot.table):
            if page not in shared:
                continue
            text = slot.tokens[: (number + 1) * page_size]
            root, known = texts.get(page, (slot.chain[0], text))
            both = min(len(text), len(known))
            _ensure(
                root == slot.chain[0]
                and (len(text) - 1) // page_size == (len(known) - 1) // page_size
                and text[:both] == known[:both],
                f"slot {name} has other tokens in page {page} than others that hold it",
            )
            texts[page] = (root, max(text, known, key=len))


def _check_slot(name: str, slot: SlotPages, stock: PageStock, *, page_size: int) -> None:
    length, table = len(slot.tokens), slot.table
    _ensure(len(table) == -(-length // page_size), f"{name} has {len(table)} pages for {length} tokens")
    _ensure(len(set(table)) == len(table), f"{name} has a page twice: {table}")
    _ensure(slot.committed * page_size <= length, f"{name} has {slot.committed} committed pages, {length} tokens")
    for number in range(slot.committed):
        content = slot.tokens[number * page_size : (number + 1) * page_size].tobytes()
        digest = slot.chain[number + 1]
        _ensure(digest == chained(slot.chain[number], content), f"{name}: digest of page {number} is of other tokens")
        found = stock.index.find(digest)
        _ensure(found == table[number], f"{name}: page {number} is {table[number]}, the index has {found}")


def _ensure(holds: bool, message: str) -> None:
    if not holds:
        raise AssertionError(message)
