"""Grammars by the library llguidance; nothing else in Foreword knows it."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

import numpy as np
from llguidance import LLMatcher, LLTokenizer
from numpy.typing import NDArray

from foreword.errors import EngineFailure, InvalidField
from foreword.grammars.lark import to_lark
from foreword.grammars.stack import deep
from foreword.laws.parameters import Grammar
from foreword.models.tokenizer import Tokenizer

KEPT = 64
"""Compiled grammars that are kept, those asked for last."""
_END = b"<|the end of a text|>"


class LibraryGrammars:
    """Understands grammars over the ids of one tokenizer; safe in several threads at once.

    The library's limits of a grammar's size and of the work at a position hold: about 0.1 s and 20 ms.
    """

    def __init__(self, tokenizer: Tokenizer, *, vocabulary_size: int) -> None:
        """Take the `vocabulary_size` ids of a model; those that the tokenizer does not know never come."""
        self._vocabulary_size = vocabulary_size
        self._tokenizer = LLTokenizer(_Words(tokenizer, vocabulary_size), eos_token=vocabulary_size)  # type: ignore[arg-type]
        self._compiled: OrderedDict[Grammar, LLMatcher] = OrderedDict()
        self._lock = Lock()

    def check(self, grammar: Grammar, *, output: Sequence[int] = ()) -> None:
        """Raise InvalidField for a grammar that means nothing, or that `output` does not begin a text of."""
        matcher = self.matcher(grammar)
        taken = _taken(matcher, output)
        if matcher.is_error():  # may be others' doing
            matcher = self.matcher(grammar, fresh=True)
            taken = _taken(matcher, output)
        if matcher.is_error():
            raise _unfollowed(grammar, "one that can be followed further", matcher)
        if taken < len(output):
            wanted = f"tokens that begin a text of the grammar, as the {taken} before this one do"
            raise InvalidField("resume", output[taken], wanted)

    def mask(self, grammar: Grammar, *, stop_ids: Sequence[int]) -> GrammarMask:
        """Return what may come next of one text that ends with one of `stop_ids`."""
        return GrammarMask(self, grammar, vocabulary_size=self._vocabulary_size, stop_ids=stop_ids)

    def matcher(self, grammar: Grammar, *, fresh: bool = False) -> LLMatcher:
        """Return a matcher that has seen nothing; raise InvalidField with the library's reason.

        Copies share the states that any of them has come to, whose number has a limit: a `fresh` one is compiled anew.
        """
        with self._lock:
            compiled = None if fresh else self._compiled.get(grammar)
            if compiled is not None:
                self._compiled.move_to_end(grammar)
                return compiled.deep_copy()
        lark = to_lark(grammar)
        compiled = deep(lambda: LLMatcher(self._tokenizer, lark, log_level=0))
        if compiled.is_error():
            raise _unfollowed(grammar, "one that can be followed", compiled)
        with self._lock:
            self._compiled[grammar] = compiled
            while len(self._compiled) > KEPT:
                self._compiled.popitem(last=False)
            return compiled.deep_copy()


_QUOTED = re.compile(r"\s*(\d+ \|.*|\^)?$")
"""Lines in which the library shows the source and where it stumbled."""
_PLACE = re.compile(r"^at \d+\(\d+\): ")


class GrammarMask:
    """What may come next of one text: a matcher that has consumed the output it was last asked about.

    Asked about another output it takes back what the two do not share and consumes the rest, so that candidates,
    refused ones, and a text that starts again at another target all come to the same.
    """

    def __init__(
        self, grammars: LibraryGrammars, grammar: Grammar, *, vocabulary_size: int, stop_ids: Sequence[int]
    ) -> None:
        """Raise InvalidField for a grammar that cannot be followed."""
        self._grammars = grammars
        self._grammar = grammar
        self._vocabulary_size = vocabulary_size
        self._stops = np.array(stop_ids, dtype=np.int64)
        self._matcher: LLMatcher | None = grammars.matcher(grammar)
        self._seen: list[int] = []

    def allowed(self, output: Sequence[int]) -> NDArray[np.bool_]:
        """Return which ids may follow these output ids, bool[V].

        Raises InvalidField for an output that the grammar does not allow, and where the library gives up.
        """
        matcher, bits = self._answer(list(output))
        if matcher.is_error():  # may be others' doing: a text's fate hangs on that text alone
            self._matcher, self._seen = self._grammars.matcher(self._grammar, fresh=True), []
            matcher, bits = self._answer(list(output))
        if matcher.is_error():
            self._matcher = None
            raise _unfollowed(self._grammar, "one that can be followed further", matcher)
        found = np.unpackbits(np.frombuffer(bits, np.uint8), count=self._vocabulary_size + 1, bitorder="little")
        allowed = found.view(np.bool_)
        allowed[self._stops] = allowed[-1]
        return allowed[:-1]

    def _answer(self, output: list[int]) -> tuple[LLMatcher, bytes]:
        """Return the matcher behind an output and its answer, a bit for each id: none where it has given up."""
        matcher = self._follow(output)
        return matcher, b"" if matcher.is_error() else matcher.compute_bitmask()

    def _follow(self, output: list[int]) -> LLMatcher:
        shared = _shared(self._seen, output)
        matcher, back = self._matcher, len(self._seen) - shared
        if matcher is None or (back and not matcher.rollback(back)):
            matcher, shared = self._grammars.matcher(self._grammar), 0
        self._matcher, self._seen = matcher, output[: shared + _taken(matcher, output[shared:])]
        if len(self._seen) < len(output) and not matcher.is_error():
            wanted = f"one that the grammar allows behind the {len(self._seen)} before it"
            raise InvalidField("output", output[len(self._seen)], wanted)
        return matcher


class _Words:
    """The ids of a tokenizer as the library reads them: behind them one more, which stands for every way to end."""

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, tokenizer: Tokenizer, vocabulary_size: int) -> None:
        known = min(tokenizer.vocabulary_size, vocabulary_size)
        nothing = (b"",) * (vocabulary_size - known)
        self.tokens = [*(tokenizer.token_bytes(token) for token in range(known)), *nothing, _END]
        self.special_token_ids = sorted({*tokenizer.special_ids, *tokenizer.eos_ids, vocabulary_size})
        self.eos_token_id = vocabulary_size

    def __call__(self, text: str) -> list[int]:
        """Never asked: nothing is forced (`foreword.grammars.lark`), so no text is made into ids."""
        raise EngineFailure(f"grammar: the library asked for the ids of {text!r}, wanted no such question")


def _taken(matcher: LLMatcher, tokens: Sequence[int]) -> int:
    """Consume tokens and return how many were allowed; whether the matcher has given up is known afterwards."""
    taken = matcher.try_consume_tokens(list(tokens)) if tokens else 0
    if taken < len(tokens):
        matcher.compute_bitmask()  # one that has given up takes no token and says so only here
    return taken


def _shared(seen: list[int], output: list[int]) -> int:
    """Return how many ids the two begin with alike."""
    if output[: len(seen)] == seen:
        return len(seen)
    return next((i for i, (a, b) in enumerate(zip(seen, output, strict=False)) if a != b), min(len(seen), len(output)))


def _unfollowed(grammar: Grammar, wanted: str, matcher: LLMatcher) -> InvalidField:
    return InvalidField("law.grammar", grammar.source or grammar.kind, f"{wanted}: {_reason(matcher, grammar.kind)}")


def _reason(matcher: LLMatcher, kind: str) -> str:
    """Return the library's reason in one line, without what is for its makers or stands around a source."""
    told = matcher.get_error().partition("\n<state>")[0].partition("<backtrace>")[0]
    reason = " ".join(" ".join(line for line in told.splitlines() if not _QUOTED.match(line)).split())
    if kind != "lark":  # only there is the place one of what was given
        reason = _PLACE.sub("", reason)
    if kind == "regex":
        reason = reason.rpartition("parse error: ")[2].rpartition("error: ")[2]
    return reason[:500]
