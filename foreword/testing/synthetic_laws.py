"""Logits of synthetic targets and drafts as functions of the digest of the context.

Every context owns a pseudo-random half A of the vocabulary and a score x(v) in [0, 8) for each v in A.

* The target's logits are x on A and minus infinity elsewhere. They do not depend on the temperature.
* A draft asked for temperature T > 0 gives x(v) + T·log a for v in A and x(v) + T·log(1 - a) for the image of v under
  an injection of A into the other half. At temperature T that is q = a·p on A and (1 - a)·p moved off the support of p:
  Σ min(p, q) = a exactly, for every T and every context. Token-level and block verification, and Gumbel coupling
  (Σ_i 1 / Σ_j max(p_j/p_i, q_j/q_i), Daliri et al. 2024), all accept with probability a.
* A draft asked for temperature 0 puts the target's argmax first with probability a; after a miss it is the draft's 2nd,
  3rd, 4th choice with 0.5, 0.2, 0.1, else none of these. Softmax of its row is that same law: its confidence is honest.

Of a model of letters nothing is impossible, for a grammar may ask for anything: what stands at minus infinity above is
at -8 there, and the promises of a above hold but for that little.

Random numbers are those of splitmix64 (Steele, Lea, Flood 2014) started at the digest: addressed, not sequential.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from foreword.models.synthetic import SyntheticModel
from foreword.protocol.digest import extend

_GAMMA = 0x9E3779B97F4A7C15
_SPREAD = 8.0
"""Range of the scores; with 32 of them the likeliest token has about 0.2 at temperature 1."""
_EOS_LEAD = 32.0
"""How far the end of text stands above all else where it comes."""
_MISS = (0.5, 0.2, 0.1)
"""Probability that the target's token is the draft's 2nd, 3rd, 4th choice, given that it is not its first."""
_FEW = 1e-4
"""Smallest probability that a draft's row at temperature 0 shows."""

# Columns of a context's random numbers; the scores come after them.
_ROTATION, _ENDS, _HIT, _PLACE, _CHOICE, _SCORES = range(6)

_Words = npt.NDArray[np.uint64]
_Rows = npt.NDArray[np.float32]


class SyntheticLaws:
    """Vectorised logits of one synthetic model; digests are uint64 [R], logits float32 [R, V]."""

    def __init__(self, model: SyntheticModel) -> None:
        self._model = model
        self._floor = -_SPREAD if model.letters else -np.inf
        self._ordinary = model.vocabulary - (model.eos_id is not None)
        # One id is left outside A and its image, for the end of text to be moved to.
        self._half = (self._ordinary - (model.eos_id is not None)) // 2
        order = np.random.default_rng(model.seed).permutation(self._ordinary)
        self._order = np.concatenate((order, order))
        counters = np.arange(1, _SCORES + self._half + 1, dtype=np.uint64)
        self._counters: _Words = counters * np.uint64(_GAMMA)
        self._key = np.uint64(extend(model.seed, (0,)))
        self._ranked = self._ranked_logits()

    def target(self, digests: _Words) -> _Rows:
        """Return the target's logits after each context."""
        return self._target(self._numbers(digests))

    def draft(self, digests: _Words, temperatures: npt.NDArray[np.float64]) -> _Rows:
        """Return the draft's logits after each context, for the temperature [R] that they will meet."""
        numbers = self._numbers(digests)
        if not temperatures.any():
            return self._draft_greedy(numbers)
        logits = self._draft_sampled(numbers, temperatures)
        greedy = temperatures == 0.0
        if greedy.any():
            logits[greedy] = self._draft_greedy(numbers[greedy])
        return logits

    def _numbers(self, digests: _Words) -> _Words:
        z: _Words = (digests ^ self._key)[:, None] + self._counters
        z ^= z >> np.uint64(30)
        z *= np.uint64(0xBF58476D1CE4E5B9)
        z ^= z >> np.uint64(27)
        z *= np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
        return z

    def _scores(self, numbers: _Words) -> _Rows:
        # 24 bits are exact in float32, so that both sides find the same argmax.
        return (numbers[:, _SCORES:] >> np.uint64(40)).astype(np.float32) * np.float32(_SPREAD / (1 << 24))

    def _starts(self, numbers: _Words) -> npt.NDArray[np.int64]:
        return (numbers[:, _ROTATION] % np.uint64(self._ordinary)).astype(np.int64)

    def _ends(self, numbers: _Words) -> npt.NDArray[np.bool_]:
        return _unit(numbers[:, _ENDS]) < self._model.eos

    def _target(self, numbers: _Words) -> _Rows:
        count, half = len(numbers), self._half
        logits = np.full((count, self._model.vocabulary), self._floor, dtype=np.float32)
        columns = self._order[self._starts(numbers)[:, None] + np.arange(half)]
        logits[np.arange(count)[:, None], columns] = self._scores(numbers)
        if self._model.eos_id is not None:
            logits[self._ends(numbers), self._model.eos_id] = _SPREAD + _EOS_LEAD
        return logits

    def _draft_sampled(self, numbers: _Words, temperatures: npt.NDArray[np.float64]) -> _Rows:
        count, half, a = len(numbers), self._half, self._model.agreement
        with np.errstate(divide="ignore", invalid="ignore"):
            # 0 · log 0 belongs to a row at temperature 0, which is replaced.
            kept = (temperatures * np.log(a)).astype(np.float32)
            moved = (temperatures * np.log1p(-a)).astype(np.float32)
        logits = np.full((count, self._model.vocabulary), self._floor, dtype=np.float32)
        starts = self._starts(numbers)
        columns = self._order[starts[:, None] + np.arange(2 * half)]
        scores = self._scores(numbers)
        rows = np.arange(count)[:, None]
        logits[rows, columns[:, :half]] = scores + kept[:, None]
        logits[rows, columns[:, half:]] = scores + moved[:, None]
        if self._model.eos_id is not None:
            ends = self._ends(numbers)
            lead = np.float32(_SPREAD + _EOS_LEAD)
            logits[ends, self._model.eos_id] = lead + kept[ends]
            logits[ends, self._order[starts[ends] + 2 * half]] = lead + moved[ends]
        return logits

    def _draft_greedy(self, numbers: _Words) -> _Rows:
        count, ordinary = len(numbers), self._ordinary
        best = self._scores(numbers).argmax(axis=1)
        wanted = self._order[self._starts(numbers) + best]
        shift = (numbers[:, _CHOICE] % np.uint64(ordinary - 1)).astype(np.int64)
        away = 1 + (shift[:, None] + np.arange(4)) % (ordinary - 1)  # never 0: no choice is `wanted` yet
        choices = (wanted[:, None] + away) % ordinary
        if self._model.eos_id is not None:
            wanted = np.where(self._ends(numbers), self._model.eos_id, wanted)
        place = 1 + np.searchsorted(np.cumsum(_MISS), _unit(numbers[:, _PLACE]), side="right")
        place[_unit(numbers[:, _HIT]) < self._model.agreement] = 0
        named = place < 4
        choices[named, place[named]] = wanted[named]
        logits = np.full((count, self._model.vocabulary), self._ranked[4], dtype=np.float32)
        logits[np.arange(count)[:, None], choices] = self._ranked[:4]
        return logits

    def _ranked_logits(self) -> _Rows:
        """Logits of the four choices and of all others, [5], strictly falling from the first to the fourth."""
        a = self._model.agreement
        miss = max(1.0 - a, _FEW)
        first = max(a, 1.1 * _MISS[0] * miss)  # below a = 1/3 the first choice is still the first
        rest = (1.0 - sum(_MISS)) * miss / (self._model.vocabulary - 4)
        probabilities = np.array([first, *(share * miss for share in _MISS), rest])
        ranked: _Rows = np.log(probabilities).astype(np.float32)
        return ranked


def _unit(words: _Words) -> npt.NDArray[np.float64]:
    """Return numbers in [0, 1) from the upper 53 bits."""
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
