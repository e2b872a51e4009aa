"""The one place where errors become answers of HTTP.

InvalidField, Mismatch       400    a value, or a wish, that cannot be served
a key that is missing        401    with WWW-Authenticate
Unauthorized                 403
NotFound                     404    model_not_found where it is about the model
a body that is too large     413
Full                         429    with Retry-After
Cancelled                    499    nobody reads it: the client is gone
Unavailable                  503    with Retry-After
DeadlineExceeded             504
anything else                500
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from foreword import errors
from foreword.errors import ForewordError, InvalidField, NotFound
from orchestrator.http.answers import ErrorBody, ErrorDetail

_INVALID: Final = "invalid_request_error"
_KINDS: Final[Mapping[type[ForewordError], tuple[int, str, str]]] = {
    errors.InvalidField: (400, _INVALID, "invalid_value"),
    errors.Mismatch: (400, _INVALID, "mismatch"),
    errors.Unauthorized: (403, "permission_error", "forbidden"),
    errors.NotFound: (404, _INVALID, "not_found"),
    errors.Full: (429, "rate_limit_error", "rate_limit_exceeded"),
    errors.Cancelled: (499, _INVALID, "cancelled"),
    errors.Unavailable: (503, "unavailable_error", "unavailable"),
    errors.DeadlineExceeded: (504, "timeout_error", "deadline_exceeded"),
}
"""Status, type and code of each error; what is not here is 500."""
_RETRIED: Final = (429, 503)
_USUAL_RETRY_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Failure:
    """An answer that is an error."""

    status: int
    body: ErrorBody
    headers: Mapping[str, str] = field(default_factory=dict)


def failure(
    status: int, message: str, *, kind: str = _INVALID, code: str | None = None, param: str | None = None
) -> Failure:
    """Return an error in OpenAI's words."""
    place = None if param is None else _carried(param)
    return Failure(status, ErrorBody(error=ErrorDetail(message=_carried(message), type=kind, param=place, code=code)))


def failure_of(error: ForewordError) -> Failure:
    """Return the answer that an error becomes."""
    status, kind, code = next(
        (answer for one, answer in _KINDS.items() if isinstance(error, one)), (500, "server_error", "internal_error")
    )
    param = error.field or None if isinstance(error, InvalidField | NotFound) else None
    if isinstance(error, NotFound) and param == "model":
        code = "model_not_found"
    found = failure(status, error.message, kind=kind, code=code, param=param)
    if status not in _RETRIED:
        return found
    after_ms = _USUAL_RETRY_MS if error.retry_after_ms is None else error.retry_after_ms
    # The second is not standard; OpenAI's clients read it first.
    headers = {"retry-after": str(max(1, math.ceil(after_ms / 1000))), "retry-after-ms": str(after_ms)}
    return Failure(status, found.body, headers)


def unkeyed(*, shown: bool) -> Failure:
    """Return the answer to a request without a key, or with one that is not known."""
    message = "api key: got one that is not known" if shown else "api key: got none"
    found = failure(
        401, f"{message}, wanted Authorization: Bearer KEY", kind="authentication_error", code="invalid_api_key"
    )
    return Failure(found.status, found.body, {"www-authenticate": "Bearer"})


def too_large(limit: int) -> Failure:
    """Return the answer to a body of more than `limit` bytes."""
    return failure(413, f"body: got more than {limit} bytes, wanted no more", code="request_too_large")


def incident_failure(incident: str) -> Failure:
    """Return the answer to a request that met a fault of ours; the log has the rest under the same id."""
    return failure(500, f"internal error, incident {incident}", kind="server_error", code="internal_error")


def _carried(text: str) -> str:
    """Return a text that JSON can carry: names in a body may hold half a surrogate pair."""
    return text.encode("utf-8", "backslashreplace").decode()
