"""What rounds take on a link: measured, robust against outliers, older rounds counting less."""

from __future__ import annotations

from collections import deque

from orchestrator.control.drafting import Drafting
from orchestrator.control.fading import Fading, Tail
from orchestrator.control.round import Round

_FRESH_US = 1_500_000
"""How old what rounds have measured may be: by then the link has echoed a liveness frame again."""
_OLD = 4
"""Rounds after which those of others tell more than the own ones of a session that has none any more."""
_UNEVEN = 1.3
"""Most that means may say beyond medians."""
_BETTER = 4
"""One of so many steps is as good as what counts as better."""
_STEADY_US = 1_000_000
"""How long a machine does not stumble for."""
_SETTLED = 3
"""Plain steps after a round that tell of the change."""
_ENOUGH = 3
_FEW = 3
"""Rounds of a link in which a single slow one may be all that is known."""
_YOUNG, _LINK_YOUNG = 6, 64
"""Results of a session, and of all on its link, in which what is measured may be of the beginning only."""
_FADE = 0.9
_UNWAITED = 0.25
"""Of plain steps, those that have not waited for anybody, at least."""
_BELIEVED = 3
"""Rounds in a row that tell of another network."""
_NOTHING = 0.1
"""Share of a round that is not worth a word."""
_KEEP = 0.98
"""Of rounds before, in what rounds bring and take."""


class Costs:
    """Costs of one session, or of all sessions between the same draft and target."""

    def __init__(self, link: Costs | None = None) -> None:
        self._link = link
        self._fixed, self._local = Fading(), Fading()
        self._modelled = Drafting()
        self._copied, self._plain, self._step = Fading(), Fading(), Fading()
        self._by_model = self._by_lookup = 0.0
        """Candidates of recent blocks by who wrote them."""
        self._queue, self._wait, self._bare = Fading(), Fading(), Fading()
        self._plain_bare = Fading()
        """Plain steps without the rows of anybody's candidates."""
        self._apart = Fading(fade=0.98, size=64)
        """Plain steps over steps of rounds that were shortly before, both without the rows of anybody's candidates."""
        self._plainly = 0
        """Plain steps since its last round."""
        self._steady: deque[tuple[int, float]] = deque(maxlen=64)
        """When tokens came plainly, and what they took, of all sessions on the link."""
        self._turn = Fading(fade=0.98, size=64)
        """What they took beside the step itself: the target's own work between two steps, and waiting for others."""
        self._brought = self._took = 0.0
        """Tokens and microseconds of recent rounds."""
        self._rounds = self._results = 0
        self._surplus = Fading()
        """What the network took beyond the round trip of the draft's own link."""
        self._network = Fading()
        self._plain_tail, self._round_tail = Tail(), Tail()
        self._odd: deque[Round] = deque(maxlen=16)
        """The last rounds, if their network took much longer, or much shorter, than that of those before."""
        self._odd_longer, self._odd_us = False, 0
        """Which of the two, and when the first of them was."""
        self._opening = Fading()
        """How much longer than others rounds take that open after a lease."""
        self._opened = False
        """Whether all that is known is a round that opened after a lease."""
        self._late = self._slowed = False
        """Whether the last round went without its block, and whether the last change was for the worse."""
        self._round_us = self._plain_at_us = -_FRESH_US
        """When the last block was verified, and the last plain step taken."""

    def add(self, seen: Round) -> None:
        """Take a round or a plain step."""
        self._results += 1
        if seen.ordered > 0:
            self._add_round(seen)
        elif seen.ordered == 0 and not seen.first:
            if seen.at_us - self._plain_at_us > _FRESH_US:
                self._plain.clear()
                self._plain_bare.clear()
            self._plain_at_us = seen.at_us
            took_us = max(seen.took_us, seen.parts.verify_compute, 1)  # Results of several steps may come at once
            self._plain.add(took_us / (1 + seen.kept))
            bare_us = max(1.0, seen.parts.verify_compute - seen.all_us)
            self._plain_bare.add(bare_us)
            self._plainly += 1
            if self._link is not None and self._plainly > _SETTLED:
                self._link._compare(bare_us, seen.at_us)
            if self._link is None:
                self._steady.append((seen.at_us, took_us / (1 + seen.kept)))
                self._turn.add(float(took_us - min(took_us, seen.parts.verify_compute)))
                self._plain_tail.add(took_us / (1 + seen.kept), self._plain.median)
        if self._link is not None:
            self._link.add(seen)

    def _compare(self, plain_us: float, at_us: int) -> None:
        """Take what a step of a session that decodes plainly took, without the rows of anybody's candidates."""
        if self._bare.median and at_us - self._round_us <= _FRESH_US:
            self._apart.add(plain_us / self._bare.median)

    def _add_round(self, seen: Round) -> None:
        """Take a round that a draft was asked for; where its block was late or empty, the wait for it counts too."""
        if seen.at_us - self._round_us > _FRESH_US:
            self._forget_rounds()
        self._round_us = seen.at_us
        self._plainly = 0
        self._rounds += 1
        self._late = not seen.offered
        if self._opened:  # better a round that is too long than none, but no longer than there is another
            self._forget_rounds()
        opens = seen.opens and seen.offered > 0 and not self._begins  # sessions that come into step have few others
        self._opened = opens and not len(self._fixed)
        self._brought = _KEEP * self._brought + 1.0 + seen.kept
        self._took = _KEEP * self._took + seen.took_us
        if seen.offered and seen.parts.draft_compute is not None and not (opens and self.candidate_us is not None):
            self._add_drafting(seen, seen.drafting_us)
        if opens and not self._opened:
            self._opening.add(seen.beside_us - (self._fixed.median or 0.0))
            return
        self._add_times(seen)
        if self._tells_of_change(seen):
            self._forget_rounds()
            self._surplus.clear()
            self._network.clear()
            self._round_tail.clear()
            for odd in self._odd:
                self._add_times(odd)
                self._network.add(odd.parts.network or 0)
            self._odd.clear()
            self._slowed = self._odd_longer

    def _add_times(self, seen: Round) -> None:
        parts = seen.parts
        self._queue.add(float(parts.verify_queue))
        self._step.add(max(1.0, parts.verify_compute - seen.own_us))
        # A step that leases are ready for does not wait for blocks any longer than it takes.
        self._wait.add(seen.others_us if seen.others_us < parts.verify_compute else 0.0)
        self._bare.add(max(1.0, parts.verify_compute - seen.all_us))
        if seen.offered and parts.draft_compute is None:
            return
        beside_us = seen.beside_us
        self._fixed.add(max(0.0, beside_us))
        if self._link is None:
            self._round_tail.add(max(0.0, beside_us), self._fixed.median)
        if parts.network is not None or not seen.offered:
            self._local.add(max(0.0, beside_us - (parts.network or 0)))
        if parts.network is not None and seen.round_trip_us is not None:
            self._surplus.add(parts.network - seen.round_trip_us)

    def _forget_rounds(self) -> None:
        for measured in (self._fixed, self._local, self._step, self._queue, self._wait, self._bare):
            measured.clear()

    def _tells_of_change(self, seen: Round) -> bool:
        """Whether this is the last of enough rounds in a row whose network took twice as long as usual, or half of it.

        Of all sessions together, whose rounds end in the same step, those of as many steps. What others' rows add to a
        step does not count, nor what is nothing beside the round.
        """
        network_us, usual_us, odd = seen.parts.network, self._network.median, self._odd
        if network_us is None:
            return False
        self._network.add(network_us)
        if usual_us is None:
            return False
        least_us = _NOTHING * seen.took_us
        longer, shorter = network_us > 2 * usual_us + least_us, 2 * network_us + least_us < usual_us
        if (odd and longer is not self._odd_longer) or not (longer or shorter):
            odd.clear()
        if longer or shorter:
            if not odd:
                self._odd_longer, self._odd_us = longer, seen.at_us
            odd.append(seen)
        between_us = (_BELIEVED - 1) * (usual_us if longer else network_us)
        return len(odd) >= _BELIEVED and seen.at_us - self._odd_us >= between_us

    def _add_drafting(self, seen: Round, took_us: float) -> None:
        self._by_model *= _FADE
        self._by_lookup *= _FADE
        if seen.looked_up:
            self._by_lookup += seen.offered
            self._copied.add(took_us / seen.offered)
        else:
            self._by_model += seen.offered
            self._modelled.add(seen.offered, took_us)

    @property
    def candidate_us(self) -> float | None:
        """What drafting a candidate takes, as model and lookup lately took turns; None before the first block."""
        drafted = self._by_model + self._by_lookup
        if drafted > 0.0:
            took_us = self._by_model * (self.modelled_us or 0.0) + self._by_lookup * (self._copied.median or 0.0)
            return took_us / drafted
        return None if self._link is None else self._link.candidate_us

    @property
    def modelled_us(self) -> float | None:
        """What it takes a model, but for what the first takes more; None before the first block of one."""
        own_us = self._drafting.each_us
        return own_us if own_us is not None or self._link is None else self._link.modelled_us

    @property
    def _drafting(self) -> Drafting:
        """Whose blocks tell what drafting takes: those of all, once they are of two lengths, which one may not have."""
        return self._every._modelled if self._every._modelled.known else self._modelled

    @property
    def _begin_us(self) -> float:
        """What the first candidate takes more than others, as model and lookup lately took turns."""
        drafted = self._by_model + self._by_lookup
        if drafted > 0.0:
            return self._by_model / drafted * self._drafting.begin_us
        return 0.0 if self._link is None else self._link._begin_us

    @property
    def plain_us(self) -> float | None:
        """What a token takes without a draft, as busy as the target is now; None before there was a Result.

        Measured under a lease while there is one; else the steps in which blocks are verified, less their own rows, and
        what passes between two steps: what the target did there under leases, and what it would have waited for the
        blocks of others. The latter not where all of them were better off without any: then each would stay for fear of
        the others' waits.
        """
        plain, step = self._plain.median, self._step.median
        if plain is not None and (step is None or self._plain_at_us >= self._round_us):
            return plain * self._unevenness
        if step is None:
            return None if self._link is None else self._link.plain_us
        every = self._every
        pays = every._brought * (self._bare.median or 0.0) * self._busier > every._took
        wait_us = self._wait.median or 0.0 if pays else 0.0
        turn_us = every._turn.quantile(_UNWAITED) or 0.0
        return (step * self._busier + max(wait_us, turn_us)) * self._unevenness

    @property
    def _busier(self) -> float:
        """By how much longer the target computes in plain steps than in rounds, none of anybody's candidates counted.

        Where processes share cores, whoever delivers a token plainly takes them from the next step; in a round the
        target has nothing to do meanwhile.
        """
        return max(1.0 / _UNEVEN, min(_UNEVEN, self._every._apart.median or 1.0))

    @property
    def _unevenness(self) -> float:
        """By how much more the mean of plain steps is above their median than that of rounds is.

        Throughput goes by means, and medians are what stands firm. Where orchestrator and target share cores, every
        token that is delivered may get in the way of the next step; a round has time for that while it drafts.
        """
        link = self._every
        plain, rounds = link._plain_tail, link._round_tail
        if not (plain.known and rounds.known):
            return 1.0
        return max(1.0 / _UNEVEN, min(_UNEVEN, plain.factor / rounds.factor))

    @property
    def steady_plain_us(self) -> float | None:
        """The same for who decodes plainly and thinks of blocks: as in the better steps of a while.

        Half of the steps are slower than the median, and blocks that begin then end as soon as they are over.
        """
        plain, link = self.plain_us, self._link
        if plain is None or link is None:
            return plain
        lately = sorted(took_us for at_us, took_us in link._steady if at_us > link._plain_at_us - _STEADY_US)
        return min(plain, lately[len(lately) // _BETTER] * self._unevenness) if lately else plain

    @property
    def network_share(self) -> float:
        """Share of the network in what a round takes beside drafting; 0 before it was measured."""
        fixed, local = self._fixed.median, self._local.median
        if not fixed or local is None:
            return 0.0 if self._link is None else self._link.network_share
        return max(0.0, 1.0 - local / fixed)

    @property
    def _rounds_of_now(self) -> Costs:
        """Whose rounds tell what one takes: its own, unless they are few, or some rounds older than those of others."""
        link, own_us = self._link, self._fixed.median
        if link is None:
            return self
        old_us = min(_FRESH_US, _OLD * (own_us or 0.0))
        return link if len(self._fixed) < _ENOUGH or self._round_us < link.block_us - old_us else self

    @property
    def opening_us(self) -> float:
        """How much longer the first round after a lease takes; 0 before there were any."""
        return max(0.0, self._every._opening.median or 0.0)

    @property
    def late(self) -> bool:
        """Whether the last block did not come in time: what it was waited for tells nothing of the next one."""
        return self._rounds_of_now._late

    @property
    def slowed(self) -> bool:
        """Whether rounds were shorter once: what has changed may change again."""
        return self._rounds_of_now._slowed

    @property
    def queue_us(self) -> float:
        """What blocks have waited for a step to begin; 0 before there were any."""
        return self._rounds_of_now._queue.median or 0.0

    @property
    def _every(self) -> Costs:
        """Of all sessions on the link."""
        return self if self._link is None else self._link

    @property
    def _begins(self) -> bool:
        """Whether hardly anything was seen of the link."""
        return self._every._results < _LINK_YOUNG

    @property
    def young(self) -> bool:
        """Whether what is measured may be of a beginning only: sessions are not in step yet, no price is known."""
        return self._results < _YOUNG and (self._link is None or self._begins)

    @property
    def few(self) -> bool:
        """Whether so few rounds are known of the link that a single slow one may be what speaks against drafts."""
        return self._every._rounds < _FEW

    @property
    def block_us(self) -> int:
        """When a draft was last asked for a block here."""
        return self._round_us

    def fixed_us(self, now_us: int, round_trip_us: int | None) -> float | None:
        """Return what a round takes beside what each of its candidates does; None before the first block.

        Measured in rounds while there are some. Where the last one is long ago, the network is taken from the round
        trip of the draft's link as it is now, and what the network took beyond that when blocks went over it.
        """
        beside_us = self._beside_us(now_us, round_trip_us)
        return None if beside_us is None else beside_us + self._begin_us

    def _beside_us(self, now_us: int, round_trip_us: int | None) -> float | None:
        """Return what a round takes beside drafting."""
        source = self._rounds_of_now
        if source is not self:
            return source._beside_us(now_us, round_trip_us)
        old = now_us - self._round_us > _FRESH_US
        local, surplus = self._local.median, self._surplus.median
        if old and round_trip_us is not None and local is not None and surplus is not None:
            return local + max(0.0, surplus + round_trip_us)
        fixed = self._fixed.median
        return None if fixed is None else max(0.0, fixed + self._slower_us)

    @property
    def _slower_us(self) -> float:
        """By how much longer plain steps take now than the steps of rounds did, none of anybody's candidates counted.

        A machine that is slower for a while is so for both; compared with rounds that were before, plain decoding
        would look worse than it is, or better. What they always take longer does not count.
        """
        then, now = self._bare.median, self._plain_bare.median
        if then is None or now is None or self._plain_at_us < self._round_us:
            return 0.0
        return now / self._busier - then
