"""What grammars let come next in the texts of an engine's sessions: one begins when its own is compiled."""

from __future__ import annotations

from collections.abc import Callable

from foreword.errors import EngineFailure, ForewordError, InvalidField, Mismatch
from foreword.grammars.making import MaskMaker
from foreword.grammars.port import Grammars
from foreword.laws.edits import TokenMask
from target_service.engine.record import Record

POLL_US = 2_000
"""How long the engine sleeps at most while a grammar is compiled."""


class Masks:
    """Makes the masks of sessions; driven by the engine's thread."""

    def __init__(self, load: Callable[[], Grammars] | None = None) -> None:
        """Take what loads the grammars of the model that is served; None for an engine that refuses all of them."""
        self._maker = MaskMaker(load)

    def ready(self, record: Record) -> bool:
        """Whether the session's mask is made, or it needs none; the making starts when this is first asked."""
        law = record.session.law
        if law.grammar is None:
            return True
        if record.mask is None:
            record.mask = self._maker.start(law)
        return record.mask.done()

    def of(self, record: Record) -> TokenMask | ForewordError | None:
        """Return the session's mask, None for a session without a grammar, or why there is no mask; may wait for it."""
        if record.session.law.grammar is None:
            return None
        self.ready(record)
        assert record.mask is not None
        try:
            return record.mask.result()
        except InvalidField as error:  # the orchestrator has found it good, and so may another target
            return Mismatch(error.message)
        except ForewordError as error:
            return error
        except Exception as error:  # the library's, or of a tokenizer that cannot be read
            return EngineFailure(f"law.grammar: {error}")
