"""How users make a grammar."""

import json

import pytest
from pydantic import BaseModel

from foreword.errors import InvalidField
from foreword.laws.parameters import Grammar


class Colour(BaseModel):
    """A model of a user."""

    name: str
    red: int


@pytest.mark.parametrize(
    ("made", "kind", "source"),
    [
        (Grammar.json_object(), "json_object", ""),
        (Grammar.json_schema('{"type": "null"}'), "json_schema", '{"type": "null"}'),
        (Grammar.json_schema({"const": "ä"}), "json_schema", '{"const": "ä"}'),
        (Grammar.regex("a+"), "regex", "a+"),
        (Grammar.choice(["ä", '"']), "choice", '["ä", "\\""]'),
        (Grammar.choice(("a",)), "choice", '["a"]'),
        (Grammar.lark('start: "a"'), "lark", 'start: "a"'),
    ],
)
def test_each_kind_has_its_own_way(made: Grammar, kind: str, source: str) -> None:
    assert made == Grammar(kind, source)


def test_a_class_of_pydantic_is_its_schema() -> None:
    made = Grammar.json_schema(Colour)
    assert json.loads(made.source) == Colour.model_json_schema()


@pytest.mark.parametrize("schema", [{"const": {1, 2}}, {"const": object()}, object()])
def test_what_is_no_schema_is_named(schema: object) -> None:
    with pytest.raises(InvalidField, match="schema: got"):
        Grammar.json_schema(schema)  # type: ignore[arg-type]


@pytest.mark.parametrize("choices", ["abc", [], [1]])
def test_what_are_no_choices_is_named(choices: object) -> None:
    with pytest.raises(InvalidField, match="choices: got"):
        Grammar.choice(choices)  # type: ignore[arg-type]
