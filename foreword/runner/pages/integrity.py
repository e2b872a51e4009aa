"""What is always true of a page pool between two calls; tests check it after every step."""

from __future__ import annotations

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
    for page in (page for page, holders in held.items() if holders > 1):
        _ensure(page in stock.index, f"page {page} is held {held[page]} times and is not in the index")
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
