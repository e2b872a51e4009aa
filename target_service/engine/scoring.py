"""Log-probabilities of prompts: what the rows that read a piece of one say of the tokens behind them."""

from __future__ import annotations

from foreword.laws.logprobs import raw_log_probabilities
from foreword.protocol.messages import TargetScored
from foreword.runner.port import Logits
from foreword.values import replace
from target_service.core.state import Outcome, Session, Tell


def score(session: Session, logits: Logits) -> Outcome:
    """Tell the log-probabilities that float32[n, V] logits give, of n rows behind what is cached.

    The row of a token scores the next one. Raises InvalidField for logits that are no numbers.
    """
    assert session.prompt_logprobs is not None
    first = session.cached + 1  # what the first row scores; after a preemption it may have been told
    begin, end = session.scored, min(first + len(logits), session.sequence.prompt_len)
    if begin >= end:
        return session, ()
    tokens = session.sequence.tokens[begin:end]
    found = raw_log_probabilities(logits[begin - first : end - first], tokens, top=session.prompt_logprobs)
    return replace(session, scored=end), (Tell(TargetScored(session.sid, begin, found)),)
