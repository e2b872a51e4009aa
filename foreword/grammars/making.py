"""Masks are made beside an engine's steps: its thread never waits for a grammar to be compiled.

The model's tokenizer is loaded when the first grammar comes, in the same thread, where alone the grammars are.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from foreword.errors import EngineFailure
from foreword.grammars.port import Grammars
from foreword.laws.edits import TokenMask
from foreword.laws.parameters import LawParameters


class MaskMaker:
    """Makes masks one after the other, each for one text."""

    def __init__(self, load: Callable[[], Grammars] | None = None) -> None:
        """Take what loads the grammars of the model that is served; None for an engine that has none."""
        self._load = load
        self._grammars: Grammars | None = None
        self._pool: ThreadPoolExecutor | None = None

    def start(self, law: LawParameters) -> Future[TokenMask]:
        """Return the mask of a law with a grammar, made or being made."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "grammars")
        return self._pool.submit(self._made, law)

    def _made(self, law: LawParameters) -> TokenMask:
        assert law.grammar is not None
        if self._grammars is None:
            if self._load is None:
                raise EngineFailure("law.grammar: got one at an engine that has no grammars")
            self._grammars = self._load()
        return self._grammars.mask(law.grammar, stop_ids=law.stop_ids)
