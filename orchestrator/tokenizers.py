"""Loads the tokenizer of the model that the targets serve."""

from __future__ import annotations

from pathlib import Path

from foreword.errors import ForewordError, Mismatch
from foreword.models.fast_tokenizer import FastTokenizer
from foreword.models.local import local_folder
from foreword.models.source import Folder, ModelSource, parse_source
from foreword.models.synthetic_tokenizer import SyntheticTokenizer
from foreword.models.tokenizer import GenerationDefaults
from foreword.protocol.messages import ModelInfo
from orchestrator.front.text import ModelText


def load_text(source: str, model: ModelInfo, cache: Path) -> ModelText:
    """Return the text of `model`, loaded from `source`, or from where the target has it if that is empty.

    Raises Mismatch if it is another tokenizer than the target's, or if the target's source means nothing here; what
    else loading raises, in one line. Blocks, for minutes if the model has to be fetched.
    """
    parsed = _parsed(source, model)
    text = _text(parsed, cache)
    if parsed.synthetic is None and text.digest != model.tokenizer_digest:
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
        return ModelText(SyntheticTokenizer(source.synthetic), GenerationDefaults())
    folder = source.where.path if isinstance(source.where, Folder) else local_folder(source, cache)
    tokenizer = FastTokenizer(folder)
    return ModelText(tokenizer, tokenizer.defaults)
