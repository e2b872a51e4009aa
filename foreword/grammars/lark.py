"""From a grammar to llguidance's dialect of Lark, which says every kind; pure."""

from __future__ import annotations

import json
from typing import Any

from foreword.errors import InvalidField
from foreword.laws.parameters import Grammar

MOST_CHOICES = 4096
_FREE = '\n%llguidance {"no_forcing": true}\n'
"""Leaves a text its choice between tokens with the same beginning: else only those that the tokenizer would choose
come, and what may come would hang on what was asked before. It stands last, so that no source says otherwise."""


def to_lark(grammar: Grammar) -> str:
    """Return the grammar in Lark; raise InvalidField for a source that cannot be one of its kind."""
    match grammar.kind:
        case "json_object":
            if grammar.source:
                raise _wrong(grammar, "no source: the kind for any JSON object")
            return 'start: %json {"type": "object"}' + _FREE
        case "json_schema":
            return f"start: %json {json.dumps(_schema(grammar))}{_FREE}"
        case "regex":
            return f"start: /{_between_slashes(grammar.source)}/{_FREE}" if grammar.source else f'start: ""{_FREE}'
        case "choice":
            return f"start: {' | '.join(map(_quoted, _choices(grammar)))}{_FREE}"
        case "lark":
            return grammar.source + _FREE
    raise InvalidField("law.grammar.kind", grammar.kind, "one of json_object, json_schema, regex, choice, lark")


def _schema(grammar: Grammar) -> Any:
    schema = _json(grammar)
    if not isinstance(schema, dict):
        raise _wrong(grammar, "a JSON object: a schema")
    return schema


def _choices(grammar: Grammar) -> list[str]:
    choices = _json(grammar)
    if not isinstance(choices, list) or not choices or not all(isinstance(one, str) for one in choices):
        raise _wrong(grammar, "a JSON array of at least one string")
    if len(choices) > MOST_CHOICES:
        raise InvalidField("law.grammar", f"{len(choices)} choices", f"at most {MOST_CHOICES}")
    return choices


def _json(grammar: Grammar) -> Any:
    try:
        return json.loads(grammar.source)
    except (ValueError, RecursionError) as error:
        raise _wrong(grammar, f"JSON ({error})") from error


def _between_slashes(expression: str) -> str:
    """Escape what would end an expression between slashes."""
    written, escaped = [], False
    for letter in expression:
        if letter == "\n":  # an escaped line end means the line end as well
            written.append("n" if escaped else "\\n")
        else:
            written.append("\\/" if letter == "/" and not escaped else letter)
        escaped = letter == "\\" and not escaped
    return "".join(written)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _wrong(grammar: Grammar, wanted: str) -> InvalidField:
    return InvalidField("law.grammar", grammar.source or grammar.kind, wanted)
