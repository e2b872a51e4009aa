"""The form that a request asks its output to have."""

from __future__ import annotations

import json
from collections.abc import Iterator

from foreword.errors import InvalidField
from foreword.laws.parameters import Grammar
from orchestrator.http.fields import Generating, ResponseFormat, StructuredOutputs


def grammar_of(body: Generating) -> Grammar | None:
    """Return the grammar that a request asks for, None for none; raises InvalidField for more than one."""
    found = list(_asked(body))
    if len(found) > 1:
        names = " and ".join(name for name, _ in found)
        raise InvalidField(found[1][0], names, "one form of the output at most")
    return found[0][1] if found else None


def grammar_field(body: Generating) -> str:
    """Return the name of the field that asks for a grammar."""
    return next((name for name, _ in _asked(body)), "response_format")


def _asked(body: Generating) -> Iterator[tuple[str, Grammar]]:
    """Yield every grammar with the name of its field."""
    if body.response_format is not None:
        grammar = _of_format(body.response_format)
        if grammar is not None:
            yield "response_format", grammar
    if body.structured_outputs is not None:
        yield "structured_outputs", _of_outputs(body.structured_outputs)
    if body.guided_json is not None:
        yield "guided_json", Grammar.json_schema(body.guided_json)
    if body.guided_regex is not None:
        yield "guided_regex", Grammar.regex(body.guided_regex)
    if body.guided_choice is not None:
        yield "guided_choice", Grammar("choice", json.dumps(body.guided_choice))
    if body.guided_grammar is not None:
        yield "guided_grammar", Grammar.lark(body.guided_grammar)


def _of_format(form: ResponseFormat) -> Grammar | None:
    if form.type == "json_schema":
        if form.json_schema is None:
            raise InvalidField("response_format.json_schema", None, "a schema, because type is json_schema")
        return Grammar.json_schema(form.json_schema.schema_)
    if form.json_schema is not None:
        raise InvalidField("response_format.type", form.type, "json_schema beside a schema")
    return Grammar.json_object() if form.type == "json_object" else None


def _of_outputs(outputs: StructuredOutputs) -> Grammar:
    found = []
    if outputs.json_ is not None:
        found.append(Grammar.json_schema(outputs.json_))
    if outputs.regex is not None:
        found.append(Grammar.regex(outputs.regex))
    if outputs.choice is not None:
        found.append(Grammar("choice", json.dumps(outputs.choice)))
    if outputs.grammar is not None:
        found.append(Grammar.lark(outputs.grammar))
    if outputs.json_object:
        found.append(Grammar.json_object())
    if len(found) != 1:
        seen = ", ".join(grammar.kind for grammar in found) or None
        raise InvalidField("structured_outputs", seen, "exactly one of json, regex, choice, grammar and json_object")
    return found[0]
