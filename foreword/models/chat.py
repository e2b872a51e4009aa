"""Chat templates: Jinja in a sandbox, with the helpers that templates of Hugging Face use."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError, TemplateSyntaxError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from foreword.errors import InvalidField
from foreword.models.tokenizer import ChatMessage, check_roles


class ChatTemplate:
    """One template; `names` are the special tokens that it may write, by the names that templates use."""

    def __init__(self, source: str, names: Mapping[str, str]) -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _Generation]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = _now
        try:
            self._roles = tuple(_compared_roles(environment.parse(source)))
            self._template = environment.from_string(source)
        except TemplateSyntaxError as error:
            raise InvalidField("chat template", source[:40], f"Jinja ({error})") from error
        self._names = dict(names)

    def render(self, messages: Sequence[ChatMessage]) -> str:
        """Return the text of a conversation up to where the assistant answers; raise InvalidField if it is refused."""
        check_roles(messages, self._roles)
        plain = [{"role": message.role, "content": message.content} for message in messages]
        values = {"messages": plain, "tools": None, "documents": None, "add_generation_prompt": True}
        try:
            return self._template.render(**values, **self._names)
        except TemplateError as error:
            roles = [message.role for message in messages]
            raise InvalidField("messages", roles, f"a conversation that the chat template takes ({error})") from error


class _Generation(Extension):
    """{% generation %} … {% endgeneration %} marks what trainers count; the text is what stands between."""

    tags = {"generation"}  # noqa: RUF012  # the name and type that Jinja asks for

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _compared_roles(template: nodes.Template) -> Iterator[str]:
    """Yield the words that a template compares a role with: what it knows beside the usual ones."""
    for comparison in template.find_all(nodes.Compare):
        sides = (comparison.expr, *(operand.expr for operand in comparison.ops))
        if any(_is_role(side) for side in sides):
            words = (word for side in sides for word in (side, *side.find_all(nodes.Const)) if not _is_role(side))
            yield from (word.value for word in words if isinstance(word, nodes.Const) and isinstance(word.value, str))


def _is_role(expression: nodes.Expr) -> bool:
    match expression:
        case nodes.Getattr(attr="role") | nodes.Getitem(arg=nodes.Const(value="role")):
            return True
    return False


def _to_json(value: Any, indent: int | None = None) -> str:
    # Jinja's own filter escapes HTML, which the models never saw.
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)


def _now(form: str) -> str:
    return datetime.now().strftime(form)
