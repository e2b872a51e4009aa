"""From a model's source, or its tokenizer, to its grammars; the library is loaded here and no sooner."""

from __future__ import annotations

from pathlib import Path

from foreword.errors import NotFound
from foreword.grammars.port import Grammars, missing
from foreword.models.load_tokenizer import load_tokenizer
from foreword.models.source import ModelSource
from foreword.models.tokenizer import Tokenizer


def load_grammars(source: ModelSource, cache: Path, *, vocabulary_size: int) -> Grammars:
    """Return the grammars of what `source` names, as `grammars_of` and `load_tokenizer` do; takes a second."""
    return grammars_of(load_tokenizer(source, cache), vocabulary_size=vocabulary_size)


def grammars_of(tokenizer: Tokenizer, *, vocabulary_size: int) -> Grammars:
    """Return the grammars over a tokenizer's ids; raise NotFound where the library is not installed."""
    if reason := missing():
        raise NotFound(f"grammars: {reason}")
    from foreword.grammars.library import LibraryGrammars

    return LibraryGrammars(tokenizer, vocabulary_size=vocabulary_size)
