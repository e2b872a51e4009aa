"""What grammars let come next in the texts of an engine's sessions.

The model's tokenizer is loaded when the first grammar comes, and grammars are compiled, in a thread beside the steps: a
session begins when that is done, and no other waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from foreword.errors import EngineFailure, ForewordError
from foreword.grammars.port import Grammars
from foreword.laws.edits import TokenMask
from foreword.laws.parameters import LawParameters
from target_service.engine.record import Record

POLL_US = 2_000
"""How long the engine sleeps at most while a grammar is compiled."""


class Masks:
    """Makes the masks of sessions; driven by the engine's thread."""

    def __init__(self, load: Callable[[], Grammars] | None = None) -> None:
        """Take what loads the grammars of the model that is served; None for an engine that refuses all of them."""
        self._load = load
        self._grammars: Grammars | None = None
        self._pool: ThreadPoolExecutor | None = None

    def ready(self, record: Record) -> bool:
        """Whether the session's mask is made, or it needs none; the making starts when this is first asked."""
        law = record.session.law
        if law.grammar is None:
            return True
        if record.mask is None:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, "grammars")
            record.mask = self._pool.submit(self._made, law)
        return record.mask.done()

    def of(self, record: Record) -> TokenMask | ForewordError | None:
        """Return the session's mask, None for a session without a grammar, or why there is no mask; may wait for it."""
        if record.session.law.grammar is None:
            return None
        self.ready(record)
        assert record.mask is not None
        try:
            return record.mask.result()
        except ForewordError as error:
            return error
        except Exception as error:  # the library's, or of a tokenizer that cannot be read
            return EngineFailure(f"law.grammar: {error}")

    def _made(self, law: LawParameters) -> TokenMask:
        """Return a new mask; runs in the thread, where alone the grammars are loaded."""
        assert law.grammar is not None
        if self._grammars is None:
            if self._load is None:
                raise EngineFailure("law.grammar: got one at an engine that has no grammars")
            self._grammars = self._load()
        return self._grammars.mask(law.grammar, stop_ids=law.stop_ids)
