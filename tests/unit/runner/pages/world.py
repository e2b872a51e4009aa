"""A page pool beside a naive model of it: every text written out, every page's content labelled with what it is.

The device is a dictionary from (page, offset) to a label: salt and all tokens up to there. A page that is shared,
copied, evicted or given back wrongly shows as a label that is not that of the slot's text.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from foreword.errors import Full, InvalidField
from foreword.runner.pages.pool import PagePool
from foreword.runner.pages.prefix_index import chained, root
from foreword.runner.pages.slot import packed

Text = tuple[int, ...]
Label = tuple[bytes, Text]


class PassFailed(Exception):
    """The forward pass raised."""


@dataclass
class Slot:
    """What a slot should hold."""

    salt: bytes
    text: Text = ()
    committed: int = 0
    """Tokens of `text` that are never rolled back, unless all of them are."""


class World:
    """Does everything twice; `check` compares."""

    def __init__(self, pool: PagePool) -> None:
        self.pool = pool
        self.size = pool.page_size
        self.slots: dict[int, Slot] = {}
        self.device: dict[tuple[int, int], Label] = {}
        self.entered: set[Label] = set()
        self.parents: dict[bytes, bytes] = {}
        self.evicts = False
        self.hits = self.fulls = self.copies = self.forks = 0
        self._next = 0

    def open(self, salt: bytes = b"") -> int:
        self._next += 1
        self.pool.open(self._next, salt=salt)
        self.slots[self._next] = Slot(salt)
        return self._next

    def close(self, slot: int) -> None:
        self.pool.close(slot)
        del self.slots[slot]

    def adopt(self, slot: int, text: Text) -> None:
        held = self.slots[slot]
        length = self.pool.adopt(slot, text)
        held.text, held.committed = text[:length], length
        assert length % self.size == 0
        assert length <= max(0, len(text) - 1)
        cached = 0
        while cached + self.size < len(text) and (held.salt, text[: cached + self.size]) in self.entered:
            cached += self.size
        # What was evicted or withdrawn may be missing; what was never committed may not be there.
        assert length == cached or (self.evicts and length < cached)
        self.hits += length > 0

    def fork(self, source: int, length: int) -> int:
        held = self.slots[source]
        slot = self.open(held.salt)
        # A page that a fork commits may be written over where it came from, when the fork is gone.
        self.evicts = True
        free = self.pool.free
        self.pool.fork(source, slot, length)
        assert self.pool.free == free
        self.slots[slot] = Slot(held.salt, held.text[:length], min(held.committed, length))
        self.forks += 1
        return slot

    def append(self, batch: dict[int, Text], *, fails: bool = False) -> bool:
        """Run a pass over new tokens of slots; return whether there was room."""
        wanted = sum(self._wanted(slot, len(text)) for slot, text in batch.items())
        asked = [self.pool.wanted(slot, len(self.slots[slot].text) + len(text)) for slot, text in batch.items()]
        assert sum(asked) == wanted
        free = self.pool.free
        self.evicts |= wanted > free - self._idle()
        try:
            with self.pool.reserve(list(batch.items())) as reserved:
                assert wanted <= free
                self.copies += len(reserved.copies)
                self._run(batch, reserved.copies)
                if fails:
                    raise PassFailed
        except Full:
            assert wanted > free
            self.fulls += 1
            return False
        except PassFailed:
            return True
        for slot, text in batch.items():
            self.slots[slot].text += text
        return True

    def commit(self, slot: int, length: int, beyond: Text = ()) -> None:
        """Commit the first `length` tokens, and others that the slot does not hold yet when it holds no more."""
        held = self.slots[slot]
        length = min(length, len(held.text))
        tokens = held.text[:length] + (beyond if length == len(held.text) else ())
        self.pool.commit(slot, tokens)
        held.committed = max(held.committed, length)
        digest = root(held.salt)
        for end in range(self.size, length + 1, self.size):
            self.entered.add((held.salt, held.text[:end]))
            parent, digest = digest, chained(digest, packed(held.text[end - self.size : end]).tobytes())
            self.parents[digest] = parent

    def commit_wrongly(self, slot: int) -> None:
        """Say that other tokens are committed than the first page that is not yet holds."""
        held = self.slots[slot]
        first = self.pool.page_size * (held.committed // self.size)
        if len(held.text) < first + self.size:
            return
        wrong = (*held.text[: first + self.size - 1], held.text[first + self.size - 1] ^ 1)
        try:
            self.pool.commit(slot, wrong)
        except InvalidField:
            return
        raise AssertionError("tokens that the slot does not hold have been committed")

    def truncate(self, slot: int, length: int) -> None:
        held = self.slots[slot]
        if 0 < length < held.committed and length % self.size:
            self.evicts = True  # a later write takes the page out of the index
        self.pool.truncate(slot, length)
        held.text, held.committed = held.text[:length], min(held.committed, length)

    def check(self) -> None:
        """Raise AssertionError where the pool and its pages are not what they should be."""
        self.pool.check_integrity()
        assert self.pool.tokens == sum(len(slot.text) for slot in self.slots.values())
        for number, slot in self.slots.items():
            assert self.pool.length(number) == len(slot.text)
            table = self.pool.table(number)
            for position in range(len(slot.text)):
                page, offset = table[position // self.size], position % self.size
                assert self.device[page, offset] == (slot.salt, slot.text[: position + 1])

    def check_reachable(self) -> None:
        """Raise AssertionError for a page in the index whose parent is not; for worlds that cut no committed page."""
        digests = {digest for _, digest in self.pool._stock.index}
        roots = {root(salt) for salt, _ in self.entered}
        assert all(self.parents[digest] in digests | roots for digest in digests)

    def end(self) -> None:
        """Close everything; all pages are free, and can all be had."""
        for slot in list(self.slots):
            self.close(slot)
        self.check()
        assert self.pool.free == self.pool.pages
        slot = self.open(b"last")
        assert self.append({slot: tuple(range(self.pool.pages * self.size))})
        self.check()
        assert (self.pool.free, self.pool.cached) == (0, 0)
        self.close(slot)
        self.check()
        assert (self.pool.free, self.pool.tokens) == (self.pool.pages, 0)

    def _run(self, batch: dict[int, Text], copies: list[tuple[int, int]]) -> None:
        for source, copy in reversed(copies):  # in any order
            for offset in range(self.size):
                if (source, offset) in self.device:
                    self.device[copy, offset] = self.device[source, offset]
        for number, text in batch.items():
            slot, table = self.slots[number], self.pool.table(number)
            for position, end in enumerate(range(len(slot.text) + 1, len(slot.text) + len(text) + 1), len(slot.text)):
                label = (slot.salt, (slot.text + text)[:end])
                self.device[table[position // self.size], position % self.size] = label

    def _wanted(self, slot: int, count: int) -> int:
        length = len(self.slots[slot].text)
        pages = -(-(length + count) // self.size) - -(-length // self.size)
        shared = length % self.size and sum(self.pool.table(slot)[-1] in self.pool.table(s) for s in self.slots) > 1
        return pages + 1 if shared and count else pages

    def _idle(self) -> int:
        held = {page for slot in self.slots for page in self.pool.table(slot)}
        return sum(page not in held for page, _ in self.pool._stock.index)


SALTS = (b"", b"tenant")
FAMILIES = tuple(tuple(Random(seed).randrange(2) for _ in range(40)) for seed in range(3))
"""Prompts are beginnings of these, so that sessions share them often; two ids make accidents likely too."""


def some_text(random: Random, most: int) -> Text:
    return tuple(random.randrange(2) for _ in range(random.randint(1, most)))


def next_text(random: Random, text: Text, most: int) -> Text:
    """Return what comes after `text`: often what comes there in other sessions too."""
    families = [family for family in FAMILIES if family[: len(text)] == text and len(family) > len(text)]
    if not families or random.random() < 0.2:
        return some_text(random, most)
    return random.choice(families)[len(text) : len(text) + random.randint(1, most)]


ACTS = ("open", "open", "prompt", "verify", "verify", "step", "rollback", "commit", "wrong", "close")


def random_step(world: World, random: Random, *, cuts_committed: bool, forks: bool = False) -> None:
    """Do one of the things that sessions do."""
    act = random.choice((*ACTS, "fork", "fork") if forks else ACTS)
    if act == "open" or not world.slots:
        if len(world.slots) < 8:
            slot = world.open(random.choice(SALTS))
            world.adopt(slot, random.choice(FAMILIES)[: random.randint(1, 40)])
        return
    slot = random.choice(list(world.slots))
    held = world.slots[slot]
    if act == "prompt" and not held.text:
        prompt = random.choice(FAMILIES)[: random.randint(1, 40)]
        world.adopt(slot, prompt)
        if world.append({slot: prompt[len(held.text) :]}, fails=random.random() < 0.1):
            world.commit(slot, len(held.text), beyond=(1,) * random.randrange(9))
    elif act == "verify":
        before = len(held.text)
        if world.append({slot: next_text(random, held.text, 9)}):
            world.truncate(slot, random.randint(before, len(held.text)))
            world.commit(slot, len(held.text), beyond=some_text(random, 9))
    elif act == "step":
        chosen = random.sample(list(world.slots), random.randint(1, len(world.slots)))
        world.append({s: next_text(random, world.slots[s].text, 5) for s in chosen}, fails=random.random() < 0.2)
    elif act == "rollback":
        least = 0 if cuts_committed else held.committed
        length = random.randint(least, len(held.text))
        world.truncate(slot, length if cuts_committed or random.random() < 0.5 else 0)
    elif act == "commit":
        world.commit(slot, random.randint(0, len(held.text)))
    elif act == "fork":
        if len(world.slots) < 12:
            world.fork(slot, random.randint(0, len(held.text)))
    elif act == "wrong":
        world.commit_wrongly(slot)
    elif act == "close":
        if random.random() < 0.5:
            world.commit(slot, len(held.text))
        world.close(slot)


def random_life(pool: PagePool, seed: int, *, steps: int, cuts_committed: bool, forks: bool = False) -> World:
    """Live through `steps` random steps, checking after each, and end."""
    world, random = World(pool), Random(seed)
    for _ in range(steps):
        random_step(world, random, cuts_committed=cuts_committed, forks=forks)
        world.check()
        if not cuts_committed and not forks:
            world.check_reachable()
    world.end()
    return world
