"""The port of grammars: what a target and an orchestrator ask of whatever understands them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Protocol

from foreword.extras import how_to_install
from foreword.laws.edits import TokenMask
from foreword.laws.parameters import Grammar

LIBRARY = "llguidance"


class Grammars(Protocol):
    """Understands the grammars of one model's tokenizer."""

    def check(self, grammar: Grammar, *, output: Sequence[int] = ()) -> None:
        """Raise InvalidField for a grammar that means nothing, or that `output` does not begin a text of."""

    def mask(self, grammar: Grammar, *, stop_ids: Sequence[int]) -> TokenMask:
        """Return what may come next of one text that ends with one of `stop_ids`; raise InvalidField as `check` does.

        A stop id may come exactly where the grammar accepts the text before it. The mask is a function of the output
        that it is asked about; what it remembers only saves time.
        """
        ...


def missing() -> str:
    """Return why no grammar can be followed in this environment, "" where they can."""
    return "" if find_spec(LIBRARY) is not None else f"{LIBRARY} is not installed; {how_to_install(LIBRARY)}"
