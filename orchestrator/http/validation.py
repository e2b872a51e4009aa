"""What is wrong with a body, in words that name the field, the value seen and the value wanted."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

from pydantic import BaseModel

from foreword.errors import shown
from orchestrator.http.errors import Failure, failure
from orchestrator.http.fields import names_of

_CODES: Final = {
    "extra_forbidden": "unknown_parameter",
    "missing": "missing_required_parameter",
    "json_invalid": "invalid_json",
}
_UNIONS: Final = frozenset({"str", "int", "float", "bool", "none", "dict", "list", "body"})
_TAG: Final = re.compile(r"[A-Z].*|.*[\[\]()].*")
"""What pydantic puts into a place for the kinds of value that were tried there."""
_INPUT: Final = "Input should be "
_INDEX: Final = re.compile(r"\[\d+\]")
_CLOSE: Final = 0.75
"""How alike names are of which one was meant for the other: temprature, not reasoning_effort for response_format."""
_SEVERAL: Final = {
    "prompt": "a text, token ids, or a list of either",
    "stop": "a text or a list of texts",
    "guided_json": "a schema, as an object or as text",
}
"""What fields that take several kinds of value want."""


def invalid(problems: Sequence[Mapping[str, Any]], body: type[BaseModel] | None) -> Failure:
    """Return the answer to a body of a kind that pydantic complains of."""
    first = problems[0]
    kind, param = first["type"], place_of(first)
    if kind == "json_invalid":
        return failure(400, f"body: got no JSON ({first['ctx']['error']}), wanted an object", code=_CODES[kind])
    if kind == "string_unicode" and not param:
        return failure(400, f"body: got the name {shown(first['input'])}, wanted text that UTF-8 can carry")
    if not param:
        message = f"body: got {_seen(first['input'])}, wanted a JSON object, with content-type application/json"
        return failure(400, message, code="invalid_type")
    if kind == "extra_forbidden":
        message = f"{param}: got a field that is not known here{_suggestion(param, body)}"
    elif kind == "missing":
        message = f"{param}: got nothing, wanted a value"
    else:
        same = dict.fromkeys(_wanted(one) for one in problems if place_of(one) == param)
        wanted = _SEVERAL.get(param) or " or ".join(same)
        message = f"{param}: got {shown(first['input'])}, wanted {wanted}"
    return failure(400, message, code=_CODES.get(kind, "invalid_type"), param=param)


def no_json(content_type: str | None) -> Failure:
    """Return the answer to a body that does not say it is JSON."""
    return failure(400, f"content-type: got {_seen(content_type)}, wanted application/json", code="invalid_type")


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


def _seen(given: object) -> str:
    return "nothing" if given is None else shown(given)


def _wanted(problem: Mapping[str, Any]) -> str:
    message: str = problem["msg"]
    text = message.removeprefix(_INPUT)
    return text[:1].lower() + text[1:]


def _suggestion(param: str, kind: type[BaseModel] | None) -> str:
    """Return what a name may have been meant for, among those that may stand where it does."""
    parent, name = kind, _INDEX.sub("", param).split(".")
    for part in name[:-1]:
        parent = _inner(parent, part)
    known = names_of(parent) if parent else ()
    close = difflib.get_close_matches(name[-1], sorted(known), n=1, cutoff=_CLOSE)
    return f"; did you mean {param.removesuffix(name[-1])}{close[0]}?" if close else ""


def _inner(kind: type[BaseModel] | None, name: str) -> type[BaseModel] | None:
    """Return the kind of object that a field of another has, of a list that of its items; None for no object."""
    if kind is None:
        return None
    of_name = (field.annotation for one, field in kind.model_fields.items() if name in (one, field.alias))
    left: list[Any] = list(of_name)
    while left:
        one = left.pop()
        if isinstance(one, type) and issubclass(one, BaseModel):
            return one
        left.extend(get_args(one))
    return None
