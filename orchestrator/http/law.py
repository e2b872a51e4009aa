"""How a request says that tokens be chosen, and how drafts may be used."""

from __future__ import annotations

from typing import Any, Final

from foreword.errors import InvalidField
from foreword.laws.parameters import LawParameters
from foreword.protocol.generation import Speculation
from foreword.protocol.words import Drafter, Rule
from foreword.values import replace
from orchestrator.http.fields import Generating, Speculative
from orchestrator.http.grammar import grammar_of

_SAME: Final = (
    *("temperature", "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty"),
    "min_tokens",
)
"""Fields of the body that LawParameters has by the same name."""
_ALL: Final = (-1, 0)
"""What top_k is set to where all tokens shall be kept."""


def law_of(body: Generating, defaults: LawParameters) -> LawParameters:
    """Return the law: what the body says, and `defaults` where it is silent."""
    given: dict[str, Any] = {name: getattr(body, name) for name in _SAME if getattr(body, name) is not None}
    if body.top_k is not None:
        given["top_k"] = None if body.top_k in _ALL else body.top_k
    if body.logit_bias:
        given["bias"] = tuple((_id(name), value) for name, value in body.logit_bias.items())
    if body.banned_token_ids:
        given["banned_ids"] = tuple(body.banned_token_ids)
    if body.stop_token_ids:
        given["stop_ids"] = tuple(body.stop_token_ids)
    grammar = grammar_of(body)
    if grammar is not None:
        given["grammar"] = grammar
    return replace(defaults, **given)


def speculation_of(asked: Speculative | None) -> Speculation:
    """Return how drafts may be used; raises InvalidField for what contradicts itself."""
    if asked is None:
        return Speculation()
    gamma = asked.gamma
    if asked.enabled is False:
        if gamma:
            raise InvalidField("speculative.gamma", gamma, "0 or nothing, because enabled is false")
        gamma = 0
    if asked.enabled and gamma == 0:
        raise InvalidField("speculative.gamma", gamma, "at least 1, because enabled is true")
    return Speculation(
        gamma=gamma,
        gamma_min=asked.gamma_min,
        gamma_max=asked.gamma_max,
        rule=None if asked.rule in (None, "auto") else Rule[asked.rule.upper()],
        drafter=None if asked.drafter is None else Drafter[asked.drafter.upper()],
        draft=asked.draft or "",
    )


def _id(name: str) -> int:
    if not (name.isascii() and name.isdigit() and len(name) <= 10):
        raise InvalidField("logit_bias", name, "token ids in decimals")
    return int(name)
