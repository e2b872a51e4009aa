"""The one tree of errors.

    ForewordError
    ├── InvalidField          INVALID_ARGUMENT     a value given by a user or a peer is out of its range
    ├── Unauthorized          PERMISSION_DENIED    the caller's identity may not do this
    ├── NotFound              NOT_FOUND            a model, file, request or session that is not there
    ├── Mismatch              FAILED_PRECONDITION  two parts that do not fit: vocabularies, versions, digests
    ├── Corrupted             DATA_LOSS            bytes that are not what they should be
    ├── Full                  RESOURCE_EXHAUSTED   no room now; retry after a while
    ├── Unavailable           UNAVAILABLE          a peer that cannot be reached, or drains; retry
    ├── DeadlineExceeded      DEADLINE_EXCEEDED    the caller's time is up
    ├── Cancelled             CANCELLED            the caller went away
    ├── ProtocolFault         INTERNAL             a peer broke the protocol
    └── EngineFailure         INTERNAL             the engine process died or its forward pass raised
        └── RunnerLost        INTERNAL             no further forward pass can succeed: the engine has to start again

A message names what was wrong, the value seen and the value wanted.
"""

from __future__ import annotations

from typing import ClassVar, Final, Self

__all__ = [
    "Cancelled",
    "Corrupted",
    "DeadlineExceeded",
    "EngineFailure",
    "ForewordError",
    "Full",
    "InvalidField",
    "Mismatch",
    "NotFound",
    "ProtocolFault",
    "RunnerLost",
    "Unauthorized",
    "Unavailable",
]

_SHOWN_BEGINNING: Final = 80
_SHOWN_END: Final = 40
"""Of a path the end says most."""
_LONGEST_SHOWN: Final = 160
"""Characters of a value that are shown whole; what was shortened is shorter, so that a peer's word stays as it is."""


class ForewordError(Exception):
    """Base of all errors that Foreword raises on purpose."""

    code: ClassVar[str] = "UNKNOWN"
    """Name of the canonical gRPC status code."""
    retryable: ClassVar[bool] = False
    """Whether the same call may succeed later."""

    def __init__(self, message: str, *, retry_after_ms: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after_ms = retry_after_ms

    @property
    def reason(self) -> str:
        """UPPER_SNAKE name of the error, the `reason` of google.rpc.ErrorInfo."""
        name = type(self).__name__
        return "".join("_" + c if c.isupper() and i else c.upper() for i, c in enumerate(name)).upper()


class InvalidField(ForewordError):
    """A value is out of its range; names the field, the value seen and what is allowed."""

    code = "INVALID_ARGUMENT"

    def __init__(self, field: str, seen: object, wanted: str) -> None:
        super().__init__(f"{field}: got {shown(seen)}, wanted {wanted}")
        self.field = field
        self.seen = seen
        self.wanted = wanted

    def __reduce__(self) -> tuple[type[InvalidField], tuple[str, object, str]]:
        return type(self), (self.field, self.seen, self.wanted)


def shown(seen: object) -> str:
    """Return a value as messages show it: of a long one the beginning, the end, and how long it is."""
    try:
        text = repr(seen)
    except ValueError:  # an integer of more than 4300 digits
        return f"a value of type {type(seen).__name__} that is too long to print"
    if len(text) <= _LONGEST_SHOWN:
        return text
    length = len(seen) if isinstance(seen, str) else len(text)
    return f"{text[:_SHOWN_BEGINNING]}…{text[-_SHOWN_END:]} ({length:,} characters)"


class Unauthorized(ForewordError):
    """The caller's identity may not do this."""

    code = "PERMISSION_DENIED"


class NotFound(ForewordError):
    """A model, file, request or session is not there; `of` names a field whose value is the name of none."""

    code = "NOT_FOUND"

    def __init__(self, message: str, *, retry_after_ms: int | None = None) -> None:
        super().__init__(message, retry_after_ms=retry_after_ms)
        self.field = ""
        """The field of the request that names what is not there; empty where it is about none."""
        self.seen: object = None
        self.wanted = ""

    @classmethod
    def of(cls, field: str, seen: object, wanted: str) -> Self:
        """Return the error about the value of a field, with the three parts that InvalidField has."""
        error = cls(f"{field}: got {shown(seen)}, wanted {wanted}")
        error.field, error.seen, error.wanted = field, seen, wanted
        return error


class Mismatch(ForewordError):
    """Two parts do not fit together."""

    code = "FAILED_PRECONDITION"


class Corrupted(ForewordError):
    """Bytes are not what they should be."""

    code = "DATA_LOSS"


class Full(ForewordError):
    """No room now."""

    code = "RESOURCE_EXHAUSTED"
    retryable = True


class Unavailable(ForewordError):
    """A peer cannot be reached, or is shutting down."""

    code = "UNAVAILABLE"
    retryable = True


class DeadlineExceeded(ForewordError):
    """The caller's time is up."""

    code = "DEADLINE_EXCEEDED"


class Cancelled(ForewordError):
    """The caller went away."""

    code = "CANCELLED"


class ProtocolFault(ForewordError):
    """A peer broke the protocol."""

    code = "INTERNAL"


class EngineFailure(ForewordError):
    """The engine process died, or its forward pass raised."""

    code = "INTERNAL"
    retryable = True


class RunnerLost(EngineFailure):
    """A forward pass left its runner unusable: no further one can succeed, and the engine has to start again."""
