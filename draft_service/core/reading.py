"""Filling the cache with tokens that are known: the prompt in chunks, and leased tokens to compare guesses with; pure.

The last token is never read ahead: it is the row whose logits the next candidate is drawn from.
"""

from __future__ import annotations

from dataclasses import dataclass

from draft_service.core.session import prefilled
from draft_service.core.state import Outcome, Phase, Session, Tell
from foreword.protocol.messages import Follow, Tokens
from foreword.values import replace

FOLLOW_EVERY = 8
"""Tokens compared before a Follow goes out."""
FOLLOW_MOST = 32
"""Most tokens that one Follow compares; of a longer stretch, the newest."""


@dataclass(frozen=True, slots=True)
class Read:
    """`rows` enter the cache after truncation to `cached`; no logits are wanted."""

    cached: int
    rows: Tokens


def unread(session: Session) -> int:
    """Return how many tokens are missing in the cache before the row that the next candidate is drawn from.

    A session that outgrew the longest length is not read beyond it: it never drafts again.
    """
    return max(0, min(session.length, session.bounds.longest_length) - 1 - session.cached)


def next_read(session: Session, most: int) -> Read:
    """Return the next part of what is unread, at most `most` tokens."""
    return Read(session.cached, session.context_from(session.cached)[: min(most, unread(session))])


def read(session: Session, work: Read) -> Outcome:
    """A part is in the cache; the last part of a new session's tokens opens it."""
    session = replace(session, cached=work.cached + len(work.rows))
    if session.phase is Phase.PREFILL and unread(session) == 0:
        return prefilled(session)
    return session, ()


@dataclass(frozen=True, slots=True)
class Compare:
    """Guess each of the last `count` committed tokens from what stands before it.

    `rows` enter the cache after truncation to `cached`; the last `count` of them are what the guesses follow.
    """

    cached: int
    rows: Tokens
    wanted: Tokens
    """The tokens that came, `count` of them."""
    position: int
    """Output position of the first of them."""

    @property
    def count(self) -> int:
        """How many guesses there are."""
        return len(self.wanted)


def followable(session: Session) -> bool:
    """Whether enough committed tokens came under an order with γ = 0 that the drafter has not compared yet."""
    idle = session.phase is Phase.IDLE and not session.assumed
    return idle and session.unfollowed >= FOLLOW_EVERY and session.length <= session.bounds.longest_length


def compare(session: Session) -> Compare:
    """Return what the drafter has to do to compare its guesses with the tokens that came."""
    tokens = session.sequence.tokens
    count = min(session.unfollowed, FOLLOW_MOST, len(tokens) - 1)
    first = len(tokens) - count
    cached = min(session.cached, first - 1)
    return Compare(cached, tokens[cached:-1], tokens[first:], session.sequence.base - count)


def followed(session: Session, work: Compare, agreed: int) -> Outcome:
    """The drafter compared its guesses with the tokens that came: tell the orchestrator."""
    told = Follow(session.sid, session.sequence.base, work.count, agreed)
    return replace(session, unfollowed=0, cached=work.cached + len(work.rows)), (Tell(told),)
