"""Options that say what form a text has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from foreword.cli.text_file import read_text
from foreword.errors import InvalidField
from foreword.laws.parameters import Grammar

_FORM: Final = "Form of the text (one of these)"

JsonSchema = Annotated[
    Path | None, typer.Option(help="JSON that the schema in this file describes.", rich_help_panel=_FORM)
]
JsonObject = Annotated[bool, typer.Option("--json-object", help="Any JSON object.", rich_help_panel=_FORM)]
Regex = Annotated[str | None, typer.Option(help="What a regular expression matches as a whole.", rich_help_panel=_FORM)]
Choice = Annotated[list[str] | None, typer.Option(help="One of these texts; is repeated.", rich_help_panel=_FORM)]
Lark = Annotated[
    Path | None, typer.Option("--grammar", help="What the Lark grammar in this file derives.", rich_help_panel=_FORM)
]


def grammar_of(
    *, json_schema: Path | None, json_object: bool, regex: str | None, choice: list[str] | None, grammar: Path | None
) -> Grammar | None:
    """Return the form that was asked for, None for none; raises InvalidField for several, or a file without text."""
    given: dict[str, Any] = {"json_schema": json_schema, "regex": regex, "choice": choice or None, "grammar": grammar}
    asked = [name for name, value in given.items() if value is not None] + ["json_object"] * json_object
    if len(asked) > 1:
        flag = f"--{asked[0].replace('_', '-')}"
        raise InvalidField(asked[1], given.get(asked[1], True), f"one form of the text, and {flag} is there")
    if json_schema is not None:
        return Grammar.json_schema(read_text(json_schema, field="json_schema"))
    if regex is not None:
        return Grammar.regex(regex)
    if choice:
        return Grammar.choice(choice)
    if grammar is not None:
        return Grammar.lark(read_text(grammar, field="grammar"))
    return Grammar.json_object() if json_object else None
