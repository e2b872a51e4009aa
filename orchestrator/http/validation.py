"""What is wrong with a body, in words that name the field, the value seen and the value wanted."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from foreword.errors import shown
from orchestrator.http.errors import Failure, failure

_CODES: Final = {
    "extra_forbidden": "unknown_parameter",
    "missing": "missing_required_parameter",
    "json_invalid": "invalid_json",
}
_UNIONS: Final = frozenset({"str", "int", "float", "bool", "none", "dict", "list", "body"})
_TAG: Final = re.compile(r"[A-Z].*|.*[\[\]()].*")
"""What pydantic puts into a place for the kinds of value that were tried there."""
_INPUT: Final = "Input should be "
_SEVERAL: Final = {
    "prompt": "a text, token ids, or a list of either",
    "stop": "a text or a list of texts",
    "guided_json": "a schema, as an object or as text",
}
"""What fields that take several kinds of value want."""


def invalid(problems: Sequence[Mapping[str, Any]], known: Iterable[str]) -> Failure:
    """Return the answer to a body that pydantic complains of; `known` are the names that may stand at its top."""
    first = problems[0]
    kind, param = first["type"], place_of(first)
    if kind == "json_invalid":
        return failure(400, f"body: got no JSON ({first['ctx']['error']}), wanted an object", code=_CODES[kind])
    if kind == "string_unicode" and not param:
        return failure(400, f"body: got the name {shown(first['input'])}, wanted text that UTF-8 can carry")
    if not param:
        message = f"body: got {shown(first['input'])}, wanted a JSON object, with content-type application/json"
        return failure(400, message, code="invalid_type")
    if kind == "extra_forbidden":
        message = f"{param}: got a field that is not known here{_suggestion(param, known)}"
    elif kind == "missing":
        message = f"{param}: got nothing, wanted a value"
    else:
        same = dict.fromkeys(_wanted(one) for one in problems if place_of(one) == param)
        wanted = _SEVERAL.get(param) or " or ".join(same)
        message = f"{param}: got {shown(first['input'])}, wanted {wanted}"
    return failure(400, message, code=_CODES.get(kind, "invalid_type"), param=param)


def place_of(problem: Mapping[str, Any]) -> str:
    """Return the field that a complaint is about, such as messages[0].role; empty for the body itself."""
    place = ""
    parts = tuple(problem["loc"])
    for depth, part in enumerate(parts):
        is_name = problem["type"] == "extra_forbidden" and depth == len(parts) - 1
        if isinstance(part, int):
            place += f"[{part}]" if place else ""
        elif is_name or not (part in _UNIONS or _TAG.fullmatch(part)):
            place += f".{part}" if place else part
    return place


def _wanted(problem: Mapping[str, Any]) -> str:
    message: str = problem["msg"]
    text = message.removeprefix(_INPUT)
    return text[:1].lower() + text[1:]


def _suggestion(param: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(param, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""
