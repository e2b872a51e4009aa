"""What a target's refusal or loss means for the request."""

from __future__ import annotations

from foreword.errors import EngineFailure, ForewordError, Full, InvalidField, Mismatch, ProtocolFault, Unavailable
from foreword.laws.parameters import LawParameters
from foreword.protocol.messages import Lost, Refused
from foreword.protocol.words import LossCode, RefusalCode

RETRY_AFTER_MS = 200
"""When to ask a target again that gave no time."""


def error_of_refusal(refused: Refused, address: str) -> ForewordError:
    """Return the error that a client gets if no other target takes the session."""
    told = f"target {address}: {refused.message}"
    match refused.code:
        case RefusalCode.FULL:
            return Full(told, retry_after_ms=refused.retry_after_ms or RETRY_AFTER_MS)
        case RefusalCode.DRAINING | RefusalCode.STARTING:
            return Unavailable(told, retry_after_ms=refused.retry_after_ms)
        case RefusalCode.TOO_LONG:
            return InvalidField("prompt", "one that is too long", f"what fits the {told}")
        case RefusalCode.BAD:
            return InvalidField("request", "one that is refused", f"what suits the {told}")
        case RefusalCode.MISMATCH:
            return Mismatch(told)


def error_of_loss(lost: Lost, address: str, law: LawParameters) -> ForewordError:
    """Return the error that a client gets if the session, which has this law, cannot be opened again."""
    told = f"target {address}: {lost.message}"
    match lost.code:
        case LossCode.EVICTED:
            return Full(told, retry_after_ms=RETRY_AFTER_MS)
        case LossCode.RUNNER:
            return EngineFailure(told)
        case LossCode.PROTOCOL:
            return ProtocolFault(told)
        case LossCode.DRAINING:
            return Unavailable(told)
        case LossCode.LAW:
            return Mismatch(told)
        case LossCode.DEAD_END:
            return law.fault(lost.message)


def useless_again(refused: Refused) -> bool:
    """Whether asking the same target again cannot help."""
    return refused.code in (RefusalCode.TOO_LONG, RefusalCode.BAD, RefusalCode.MISMATCH)
