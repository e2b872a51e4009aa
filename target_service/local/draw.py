"""Candidates of a model inside the target, one after another: which law, which random numbers, what the law is; pure.

As a draft service draws: the likeliest token at temperature 0, with the target's own noise under `match`, and from
integer counts under the others, whose laws are those counts.
"""

from __future__ import annotations

from foreword.addresses.keys import KEY_BYTES, draft_address, hkdf_sha256
from foreword.addresses.philox import first_integers
from foreword.laws.counts import sample, to_counts
from foreword.laws.edits import TokenMask
from foreword.laws.law import Law
from foreword.laws.sampling import sample_match
from foreword.protocol import digest as digests
from foreword.protocol.messages import BlockLaw, OneHot, SparseCounts
from foreword.protocol.words import Rule
from target_service.core.state import Session

_INFO = b"foreword/v1/random/local draft"


class Pen:
    """A block in the making for the next step of one session's lease."""

    def __init__(self, session: Session, most: int, mask: TokenMask | None = None) -> None:
        """Write up to `most` candidates, fewer where a stop id is drawn."""
        assert session.commit is not None
        self.session = session
        self.mask = mask
        """What the session's grammar lets come next."""
        self.left = most
        """How many candidates may still come."""
        self.ids: tuple[int, ...] = ()
        self._rule = session.commit.rule
        self._counts: tuple[SparseCounts, ...] = ()
        self._digest = digests.extend(session.sequence.digest, session.assumed[: session.leased])

    @property
    def position(self) -> int:
        """Output position of the next candidate."""
        return self.session.output + len(self.ids)

    @property
    def law(self) -> BlockLaw | None:
        """What the candidates were drawn from; none under `match`, where it does not matter."""
        if self.session.law.greedy:
            return OneHot()
        return None if self._rule is Rule.MATCH else self._counts

    def draw(self, law: Law) -> int:
        """Draw the next candidate from the draft's law and return it."""
        token = self._drawn(law)
        self.ids += (token,)
        self.left = 0 if token in self.session.law.stop_ids else self.left - 1
        return token

    def _drawn(self, law: Law) -> int:
        keys = self.session.keys
        if self.session.law.greedy:
            return law.best
        if self._rule is Rule.MATCH:
            return sample_match(law, keys.match, self.position)
        counts = to_counts(law)
        # A key of its own, so that no number serves a draw and a residual. The digest of the text before the block is
        # in the address: it is another one at every step of a lease, while the round stays.
        key = hkdf_sha256(keys.emit, salt=b"", info=_INFO, length=KEY_BYTES)
        address = draft_address(self._digest, self.session.round, self.position)
        self._counts += (counts,)
        return sample(counts, int(first_integers(key, [address])[0]))
