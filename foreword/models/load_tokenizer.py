"""From a source to its tokenizer; without torch, so that orchestrators stay small."""

from __future__ import annotations

from pathlib import Path

from foreword.models.progress import Progress, silent
from foreword.models.source import ModelSource
from foreword.models.synthetic_tokenizer import synthetic_tokenizer
from foreword.models.tokenizer import Tokenizer


def load_tokenizer(source: ModelSource, cache: Path, *, progress: Progress = silent) -> Tokenizer:
    """Return the tokenizer of what `source` names; a real model is fetched and converted if it is not there yet.

    Raises NotFound, Unavailable, Corrupted or Mismatch in one line.
    """
    model = source.synthetic
    if model is not None:
        return synthetic_tokenizer(model)
    from foreword.models.fast_tokenizer import FastTokenizer
    from foreword.models.local import local_folder

    return FastTokenizer(local_folder(source, cache, progress=progress))
