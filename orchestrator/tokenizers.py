"""Loads the tokenizer of the model that the targets serve."""

from __future__ import annotations

from pathlib import Path

from foreword.errors import ForewordError, Mismatch
from foreword.models.load_tokenizer import load_tokenizer
from foreword.models.source import Folder, ModelSource, parse_source
from foreword.models.tokenizer import GenerationDefaults, Tokenizer
from foreword.protocol.info import ModelInfo
from orchestrator.front.text import ModelText


def load_text(source: str, model: ModelInfo, cache: Path) -> ModelText:
    """Return the text of `model`, loaded from `source`, or from where the target has it if that is empty.

    Raises Mismatch if it is another tokenizer than the target's, or if the target's source means nothing here; what
    else loading raises, in one line. Blocks, for minutes if the model has to be fetched.
    """
    text = _text(_parsed(source, model), cache)
    if text.digest != model.tokenizer_digest:
        raise Mismatch(
            f"tokenizer: got digest {text.digest[:12]} from {source or model.source!r}, wanted "
            f"{model.tokenizer_digest[:12] or 'none'}, that of the target's model {model.name!r} (flag --model)"
        )
    return text


def _parsed(source: str, model: ModelInfo) -> ModelSource:
    if source:
        return parse_source(source)
    try:
        return parse_source(model.source)
    except ForewordError as error:
        raise Mismatch(
            f"model: the target has it from {model.source!r}, which means nothing here ({error.message}); "
            "wanted the same tokenizer's folder or hub id (flag --model)"
        ) from error


def _text(source: ModelSource, cache: Path) -> ModelText:
    if source.synthetic is not None:
        return ModelText(load_tokenizer(source, cache), GenerationDefaults())
    from foreword.models.fast_tokenizer import FastTokenizer  # needs what synthetic models do without

    if isinstance(source.where, Folder):  # a folder needs no weights for this
        tokenizer: Tokenizer = FastTokenizer(source.where.path)
    else:
        tokenizer = load_tokenizer(source, cache)
    return ModelText(tokenizer, tokenizer.defaults if isinstance(tokenizer, FastTokenizer) else GenerationDefaults())
