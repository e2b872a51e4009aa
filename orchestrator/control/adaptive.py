"""Chooses γ for one session, round by round, from what its rounds and its link's have cost and brought."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate

from orchestrator.control.choice import RoundCost, best, rates
from orchestrator.control.costs import Costs
from orchestrator.control.probing import LOOK_ROUNDS, Doubt, Probing
from orchestrator.control.round import Round
from orchestrator.control.survival import Survival

HYSTERESIS = 1.03
"""How much better another γ has to be than the one that is used."""
_EACH = 8
"""Block rounds of a session from which on the choice is not thought over after each of them."""
_EVERY, _SELDOM = 8, 32
_SAMPLED = 4
"""Of so many rounds with a fixed γ one is learned from: thresholds and links need no more, and rounds come often."""
_PLAIN_US = 50_000
"""How often a session that decodes plainly thinks it over, unless others are looking or its draft tells how it does."""
_LEAST_RATE = 0.2
_SURPRISE = 2.0
"""How much longer than reckoned a round has to be for the choice to be thought over at once."""
_NEARLY = 0.7
"""How near to paying what their rows cost blocks have to be for all to try them: the price is of plain steps then."""
_QUEUED = 0.15
"""Share of a round in a queue from which on sessions may only have been out of step."""


class Why(Enum):
    """Why a γ is what it is."""

    FIXED = "fixed"
    """The request or the settings say so."""
    START = "start"
    """Nothing is measured yet."""
    BEST = "best"
    KEPT = "kept"
    """Another one is better by less than the hysteresis."""
    PROBE = "probe"
    """Plain decoding is best as far as is known; this round looks whether that still holds."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What may be chosen."""

    least: int
    most: int
    start: int
    """Before anything is measured."""
    stops: bool = False
    """Whether drafts end blocks by themselves, so that γ only bounds them."""


@dataclass(frozen=True, slots=True)
class Now:
    """What the choice depends on beside rounds that were."""

    at_us: int
    price: float = 0.0
    """Tokens that a row in the target's step takes from others."""
    round_trip_us: int | None = None
    """Of the draft's link, newest."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A γ and what it was chosen from: all that is needed to choose again."""

    gamma: int
    why: Why
    kept: tuple[float, ...] = ()
    """Survivals, candidate by candidate."""
    rates: tuple[float, ...] = ()
    """Tokens a microsecond, less what rows take from others, for each γ from 0 on."""
    cost: RoundCost | None = None
    plain_us: float | None = None
    threshold: float = 0.0
    """Survival under which a further candidate is not worth its time and its row."""
    lookup_threshold: float = 0.0
    """The same for one that is looked up, which is not worth its row."""


class AdaptiveGamma:
    """Stays with a γ until another is clearly better; leaves for 0 as soon as that is better at all."""

    def __init__(self, bounds: Bounds, survival: Survival, costs: Costs, probing: Probing) -> None:
        self._bounds = bounds
        self._survival = survival
        self._costs = costs
        self._probing = probing
        self._rounds = 0
        self._choice = Choice(bounds.start, Why.START)
        self._network_share = 0.0
        self._stale = True
        self._chosen_us = 0

    @property
    def choice(self) -> Choice:
        """The newest choice."""
        return self._choice

    @property
    def network_share(self) -> float:
        """Share of the network in what a round takes beside drafting, as it was at the newest choice."""
        return self._network_share

    @property
    def known(self) -> float:
        """From how many candidates the rates are."""
        return self._survival.known

    def moved(self, survival: Survival, costs: Costs, probing: Probing) -> None:
        """Another draft or target, or both: what was learned about the ones before does not hold for them."""
        self._survival, self._costs, self._probing = survival, costs, probing
        self._rounds, self._stale = 0, True

    def answered(self, seen: Round) -> None:
        """Learn from a round or a plain step; where γ is fixed, from one round in a few."""
        if seen.ordered == 0:
            self._costs.add(seen)
            return
        self._rounds += 1
        fixed = self._choice.why is Why.FIXED
        if fixed and self._rounds > _EACH and self._rounds % _SAMPLED:
            return
        self._costs.add(seen)
        self._survival.verified(seen.kept, seen.offered, seen.ordered)
        every = _SELDOM if fixed else _EVERY
        self._stale |= self._rounds <= _EACH or self._rounds % every == 0 or self._choice.why is Why.PROBE
        self._stale |= seen.offered == 0  # it was waited for in vain
        cost = self._choice.cost
        if cost is not None and seen.took_us > _SURPRISE * (cost.fixed_us + cost.candidate_us * seen.offered):
            self._stale = True

    def followed(self, agreed: int, compared: int) -> None:
        """Learn from guesses of a draft that follows a lease."""
        self._survival.followed(agreed, compared)
        self._stale = True

    def choose(self, now: Now) -> Choice:
        """Return the γ of the next round."""
        if self._stale or (self._choice.gamma == 0 and self._may_look(now.at_us)):
            self._stale, self._chosen_us = False, now.at_us
            self._choice = self._choose(now)
            self._network_share = self._costs.network_share
        return self._choice

    def _may_look(self, now_us: int) -> bool:
        """Whether plain decoding is to be thought over: seldom, for it is to cost no more than without any drafts."""
        return now_us - self._chosen_us >= _PLAIN_US or self._probing.open(now_us)

    def _choose(self, now: Now) -> Choice:
        bounds, costs = self._bounds, self._costs
        fixed_us = costs.fixed_us(now.at_us, now.round_trip_us)
        candidate_us, plain_us = costs.candidate_us or 0.0, costs.plain_us
        fixed = bounds.least == bounds.most
        if fixed_us is None or plain_us is None or bounds.most == 0:
            return Choice(bounds.start, Why.FIXED if fixed else Why.START)
        queue_us = min(costs.queue_us, fixed_us)
        kept, written = self._survival.kept(bounds.most), self._survival.written(bounds.most)
        in_step = RoundCost(fixed_us - queue_us, candidate_us, now.price)
        # Sessions that have just begun queue until they are in step.
        cost = in_step if costs.young else RoundCost(fixed_us, candidate_us, now.price)
        values = rates(kept, written, cost, plain_us)
        lengths = values if cost is in_step else rates(kept, written, in_step, plain_us)
        gamma, why = bounds.most, Why.FIXED
        if not fixed:
            gamma, why = self._among(values, lengths, lambda most: _Prospect(now, cost, in_step, plain_us, kept[:most]))
        worth = max(lengths[gamma], 0.0) * (costs.modelled_us or candidate_us) + now.price
        # A draft compares the survival of what it has just drawn: the next candidate's is that times its own rate.
        rate = max(_LEAST_RATE, self._survival.rate)
        return Choice(gamma, why, tuple(kept), tuple(values), cost, plain_us, worth / rate, now.price / rate)

    def _among(self, values: list[float], lengths: list[float], look: Callable[[int], _Prospect]) -> tuple[int, Why]:
        """Choose between blocks and none by `values`, and how long blocks are by `lengths`.

        The latter leave out what blocks wait for a step: those of a step wait for the longest of them, and whoever
        reckons that wait as given makes his own as long, until all are too long.
        """
        bounds, last = self._bounds, self._choice
        most = min(bounds.most, bounds.start) if self._costs.young else bounds.most
        held = min(bounds.most, max(bounds.least, 0 if last.why is Why.PROBE else last.gamma))
        gamma = best(lengths, least=max(1, bounds.least), most=most, longest=bounds.stops)
        enough = values[0]
        if last.why is Why.START or last.gamma == 0:  # a token that is slow for once is no reason to begin with blocks
            enough = 1.0 / (self._costs.steady_plain_us or 1.0 / values[0])
        enough *= 1.0 if last.why is Why.START or held > 0 else HYSTERESIS
        if bounds.least > 0 or values[gamma] > enough:
            longer = bounds.stops and gamma > held
            if held > 0 and last.why is not Why.START and not longer and lengths[gamma] <= HYSTERESIS * lengths[held]:
                return held, Why.KEPT
            return gamma, Why.BEST
        prospect = look(most)
        return (prospect.gamma, Why.PROBE) if self._looks(prospect) else (0, Why.BEST)

    def _looks(self, prospect: _Prospect) -> bool:
        """Whether it is time to look whether blocks would pay by now."""
        doubt = Doubt.NONE
        if self._costs.few and prospect.might_pay:
            doubt = Doubt.FEW
        elif prospect.would_pay:
            doubt = Doubt.TOGETHER
        elif self._costs.late:
            doubt = Doubt.LATE
        elif self._costs.slowed or self._costs.queue_us > _QUEUED * prospect.cost.fixed_us:
            doubt = Doubt.PASSING
        lost_us = prospect.lost_us + self._costs.opening_us / LOOK_ROUNDS
        return self._probing.due(prospect.at_us, lost_us=lost_us, round_us=prospect.round_us, doubt=doubt)


class _Prospect:
    """What a round with a block would cost a session that decodes plainly, with as many candidates as lose least.

    It takes longer than its tokens would have taken plainly, its rows take from others, and the change takes a step.
    """

    def __init__(self, now: Now, cost: RoundCost, in_step: RoundCost, plain_us: float, kept: list[float]) -> None:
        self.at_us = now.at_us
        self.cost = cost
        emitted = list(accumulate(kept, initial=1.0))
        losses = [
            cost.fixed_us + cost.candidate_us * gamma - (tokens - cost.price * gamma) * plain_us
            for gamma, tokens in enumerate(emitted)
        ]
        self.gamma = min(range(1, len(losses)), key=losses.__getitem__)
        self.lost_us = max(0.0, losses[self.gamma]) + plain_us
        self.round_us = cost.fixed_us + cost.candidate_us * self.gamma
        self.would_pay = any(
            tokens * plain_us > HYSTERESIS * (in_step.fixed_us + in_step.candidate_us * gamma)
            and (tokens - cost.price * gamma) * plain_us > _NEARLY * (in_step.fixed_us + in_step.candidate_us * gamma)
            for gamma, tokens in enumerate(emitted)
            if gamma
        )
        """Whether rounds that do not wait for steps would, if everybody took them: their rows are everybody's gain, as
        far as they are not far from being worth their price."""
        self.might_pay = emitted[-1] * plain_us > plain_us + (now.round_trip_us or 0)
        """Whether a round that takes nothing but the network and a step would: the least that is known not to be so."""
