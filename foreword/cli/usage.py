"""Wrong usage of a command in one line: the command, the option, the value seen and what is allowed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import typer
import typer.core
from pydantic import ValidationError

from foreword.errors import shown
from foreword.settings.environment import given_variables

_KINDS: Final[Mapping[object, str]] = {int: "a whole number", float: "a number"}


def usage_line(error: typer.TyperException, root: typer.core.TyperGroup, words: Sequence[str]) -> str:
    """Return what was wrong with the command line `words` of the command tree `root`."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else _found(root, words)[0]
    text = _refused_value(error) or str(cast(Any, error).format_message()).rstrip(".")
    return f"{path}: {text} (see '{path} --help')"


def flags_of(root: typer.core.TyperGroup, words: Sequence[str]) -> dict[str, str]:
    """Return the flags of the command that `words` lead to, by the names of its parameters.

    The name of a variable stands in the place of a flag that was not typed while the variable says its value.
    """
    _, command = _found(root, words)
    longest = {
        parameter.name: (next((option for option in parameter.opts if option.startswith("--")), None), parameter.envvar)
        for parameter in command.params
        if isinstance(parameter, typer.core.TyperOption)
    }
    return {name: _source(flag, variable, words) for name, (flag, variable) in longest.items() if flag is not None}


def _source(flag: str, variable: Any, words: Sequence[str]) -> str:
    typed = any(word.partition("=")[0] == flag for word in words)
    return variable if isinstance(variable, str) and not typed and _says(variable) else flag


def _says(variable: str) -> bool:
    """Return whether a variable says anything; one that is empty leaves the default."""
    return any(given_variables((variable,)).values())


def _found(root: typer.core.TyperGroup, words: Sequence[str]) -> tuple[str, Any]:
    """Return the command that `words` lead to, and how it is called; errors of the parser do not say whose they are."""
    path, command = ["foreword"], cast(Any, root)
    for word in words:
        held = getattr(command, "commands", {})
        if word not in held:
            break
        path.append(word)
        command = held[word]
    return " ".join(path), command


def _refused_value(error: typer.TyperException) -> str | None:
    """Return the option, the value and what is allowed; None where the error is not about a value's type or bounds."""
    cause, parameter = error.__cause__, getattr(error, "param", None)
    if not isinstance(cause, ValidationError) or parameter is None:
        return None
    first = cause.errors(include_url=False)[0]
    name = next((option for option in parameter.opts if option.startswith("--")), parameter.name)
    return f"{name}: got {shown(first['input'])}, wanted {_wanted(parameter) or first['msg']}"


def _wanted(parameter: Any) -> str | None:
    kind = _KINDS.get(getattr(getattr(parameter, "type_descriptor", None), "annotation", None))
    least, most = getattr(parameter, "min", None), getattr(parameter, "max", None)
    if kind is None or (least is None and most is None):
        return kind
    low = "" if least is None else f" from {least}"
    return f"{kind}{low}" if most is None else f"{kind}{low}{' up' if least is None else ''} to {most}"
