"""Readers of keyword arguments: a value of the right type goes through, another is refused by name."""

from __future__ import annotations

import numbers
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

from foreword.errors import InvalidField
from foreword.laws.parameters import Grammar
from foreword.protocol.messages import Trace
from foreword.protocol.words import Drafter, Rule
from foreword.wire.common import fit_text

LONGEST_TIMEOUT_S: Final = 1e9
"""30 years; gRPC takes a much later deadline for one that has passed."""

Reader = Callable[[str, object], Any]
"""Takes a field's name and the value given for it; raises InvalidField."""


def _integer(name: str, value: object) -> int:
    if not isinstance(value, bool):
        try:
            return operator.index(cast(Any, value))  # also numpy's integers
        except TypeError:
            pass
    raise InvalidField(name, value, "a whole number")


def _number(name: str, value: object) -> float:
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError as error:
            raise InvalidField(name, value, "a number that fits 64-bit floating point") from error
    raise InvalidField(name, value, "a number")


def _flag(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise InvalidField(name, value, "True or False")


def read_text(name: str, value: object) -> str:
    """Return a text; raises InvalidField for anything else, and for half of a surrogate pair."""
    if not isinstance(value, str):
        raise InvalidField(name, value, "a text")
    return fit_text(name, value)


def _bytes(name: str, value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    raise InvalidField(name, value, "bytes")


def read_ids(name: str, value: object) -> tuple[int, ...]:
    """Return token ids, also those of numpy arrays; raises InvalidField for anything else."""
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        return tuple(_integer(name, item) for item in value)
    raise InvalidField(name, value, "a list of token ids")


def read_timeout(name: str, value: object) -> float | None:
    """Return a limit of time in seconds, None for none; raises InvalidField for anything else, and for NaN."""
    if value is None:
        return None
    seconds = _number(name, value)
    if not 0.0 < seconds <= LONGEST_TIMEOUT_S:
        raise InvalidField(name, value, f"a number of seconds over 0 and up to {LONGEST_TIMEOUT_S:.0f}")
    return seconds


def _texts(name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (read_text(name, value),)
    if isinstance(value, Iterable) and not isinstance(value, bytes | Mapping):
        return tuple(read_text(name, item) for item in value)
    raise InvalidField(name, value, "a text or a list of texts")


def _bias(name: str, value: object) -> tuple[tuple[int, float], ...]:
    if isinstance(value, Mapping):
        return tuple((_integer(name, token), _number(name, bias)) for token, bias in value.items())
    raise InvalidField(name, value, "a mapping from token ids to numbers")


def read_pairs(name: str, value: object) -> tuple[tuple[int, float], ...]:
    """Return pairs of a token id and a number; raises InvalidField for anything else."""
    wanted = "pairs of a token id and a number"
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
        raise InvalidField(name, value, wanted)
    pairs = []
    for pair in value:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InvalidField(name, pair, wanted)
        pairs.append((_integer(name, pair[0]), _number(name, pair[1])))
    return tuple(pairs)


def optional(read: Reader) -> Reader:
    """Return a reader that lets None through."""
    return lambda name, value: None if value is None else read(name, value)


def _member(kind: type[Rule] | type[Drafter]) -> Reader:
    def read(name: str, value: object) -> object:
        if isinstance(value, kind):
            return value
        known = {member.name.lower(): member for member in kind}
        if isinstance(value, str) and value.lower() in known:
            return known[value.lower()]
        raise InvalidField(name, value, f"one of {', '.join(known)}, or None to leave it to the server")

    return optional(read)


def record(kind: type[Any], wanted: str, readers: Mapping[str, Reader], *, prefix: str = "") -> Reader:
    """Return a reader of values of a dataclass, which reads each of its fields."""

    def read(name: str, value: object) -> object:
        if not isinstance(value, kind):
            raise InvalidField(name, value, wanted)
        return kind(**{field: reader(prefix + field, getattr(value, field)) for field, reader in readers.items()})

    return read


READERS: Final[Mapping[str, Reader]] = {
    **dict.fromkeys(("request_id", "model", "draft"), read_text),
    **dict.fromkeys(("temperature", "repetition_penalty", "presence_penalty", "frequency_penalty"), _number),
    **dict.fromkeys(("top_p", "min_p"), optional(_number)),
    **dict.fromkeys(
        ("top_k", "max_tokens", "seed", "top_logprobs", "prompt_logprobs", "gamma", "gamma_min", "gamma_max"),
        optional(_integer),
    ),
    **dict.fromkeys(("min_tokens", "n"), _integer),
    **dict.fromkeys(("include_stop", "ignore_eos", "echo", "one_token_per_event", "skip_special_tokens"), _flag),
    **dict.fromkeys(("banned_ids", "stop_ids", "resume"), read_ids),
    "logit_bias": _bias,
    "stop": _texts,
    "rule": _member(Rule),
    "drafter": _member(Drafter),
    "grammar": optional(record(Grammar, "a Grammar", {"kind": read_text, "source": read_text}, prefix="grammar.")),
    "trace": optional(record(Trace, "a Trace", {"parent": read_text, "state": read_text}, prefix="trace.")),
    "cache_salt": _bytes,
}
"""How each keyword argument is read, by name."""
