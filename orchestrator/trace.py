"""W3C trace context in the metadata of a call (https://www.w3.org/TR/trace-context/)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from foreword.protocol.messages import Trace

_IDS: Final = "(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
_PARENT: Final = re.compile(rf"00-{_IDS}|(?!00|ff)[0-9a-f]{{2}}-{_IDS}(-[\x21-\x7e]*)?")
"""Later versions may have more behind what is known."""
_STATE: Final = re.compile(r"[\x20-\x7e\t]*")
_LONGEST: Final = 512
"""Characters of a header that are carried on; the recommendation asks for that many of tracestate."""


def trace_of(metadata: Iterable[tuple[str, str | bytes]] | None) -> Trace | None:
    """Return the trace context that a caller, or a proxy on the way, has put into the metadata of a call.

    One that cannot be read is none, as the recommendation wants: tracing never costs a request. Several tracestate
    headers are one list; one that is too long is left out.
    """
    parents, states = list[str](), list[str]()
    for key, value in metadata or ():
        if isinstance(value, str):
            if key == "traceparent":
                parents.append(value.strip())
            elif key == "tracestate":
                states.append(value.strip())
    if len(parents) != 1 or len(parents[0]) > _LONGEST or not _PARENT.fullmatch(parents[0]):
        return None
    state = ",".join(filter(None, states))
    return Trace(parents[0], state if len(state) <= _LONGEST and _STATE.fullmatch(state) else "")
