"""What a model is, so that peers can tell whether they run the same one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from foreword.errors import Mismatch
from foreword.models.cache import kept_in
from foreword.models.checksum import sha256_of
from foreword.models.dtype import Dtype
from foreword.models.json_file import read_json
from foreword.models.source import ModelSource
from foreword.models.synthetic import SyntheticModel
from foreword.models.tokenizer import Tokenizer
from foreword.protocol.info import ModelInfo

_IDLE = frozenset({"architectures", "dtype", "torch_dtype", "transformers_version", "use_cache"})
"""Fields of a config, beside those that begin with an underscore, that do not change what is computed; the format that
a model runs in is a field of its own of `ModelInfo`."""


def weights_digest(folder: Path, cache: Path) -> str:
    """Return the SHA-256, in hexadecimal, of what a model in `folder` computes: its safetensors files and config.json.

    Of the config counts every field but those that say how it was saved (`_IDLE`), whatever their order. Raises
    Corrupted for a config that is not JSON, Unavailable where the files' digest cannot be kept in `cache`.
    """
    config = json.dumps(_deciding(read_json(folder / "config.json")), sort_keys=True)
    return hashlib.sha256(f"{_files_digest(folder, cache)}\n{config}".encode()).hexdigest()


def _deciding(value: Any) -> Any:
    """Return a part of a config without what decides nothing; those of several models have one for each."""
    if isinstance(value, Mapping):
        kept = {name: one for name, one in value.items() if name not in _IDLE and not name.startswith("_")}
        return {name: _deciding(one) for name, one in kept.items()}
    return value


def _files_digest(folder: Path, cache: Path) -> str:
    """Return the SHA-256, in hexadecimal, over names and digests of the safetensors files of `folder`.

    Reading gigabytes takes seconds, so the result is kept in `cache` and holds as long as no file's name, size or time
    of change differs.
    """
    files = sorted(folder.glob("*.safetensors"))
    state = [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in files]
    key = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    note = cache / "digests" / f"{key}.json"
    if note.is_file():
        kept = json.loads(note.read_bytes())
        if kept["files"] == state:
            return str(kept["digest"])
    listing = "".join(f"{path.name} {sha256_of(path)}\n" for path in files)
    digest = hashlib.sha256(listing.encode()).hexdigest()
    with kept_in(cache):
        note.parent.mkdir(parents=True, exist_ok=True)
        unfinished = note.with_suffix(f".{hashlib.sha256(digest.encode()).hexdigest()[:8]}")
        unfinished.write_text(json.dumps({"files": state, "digest": digest}))
        unfinished.replace(note)
    return digest


def real_model_info(
    source: ModelSource,
    folder: Path,
    tokenizer: Tokenizer,
    *,
    embedding_rows: int,
    longest_context: int | None,
    dtype: Dtype,
    cache: Path,
) -> ModelInfo:
    """Return the identity of a loaded model; raise Mismatch where its config names no longest context,
    or its tokenizer an id that ends a text and that it cannot write.

    Rows of the embedding beyond the tokenizer's ids are padding: no text has them, so the vocabulary ends before them.
    """
    vocabulary_size = min(embedding_rows, tokenizer.vocabulary_size)
    if any(token >= vocabulary_size for token in tokenizer.eos_ids):
        raise Mismatch(
            f"model {source.text}: eos_token_id: got {max(tokenizer.eos_ids)}, wanted token ids below "
            f"{vocabulary_size}, the rows of its embedding"
        )
    if longest_context is None:
        raise Mismatch(
            f"model {source.text}: max_position_embeddings is missing from its config, wanted a whole number"
        )
    suffix = "" if source.layers is None else f"#layers={source.layers}"
    return ModelInfo(
        name=source.text,
        source=source.text,
        weights_digest=weights_digest(folder, cache) + suffix,
        tokenizer_digest=tokenizer.digest,
        vocabulary_size=vocabulary_size,
        longest_context=longest_context,
        dtype=dtype.value,
        eos_ids=tokenizer.eos_ids,
        chat_template=tokenizer.has_chat_template,
    )


def synthetic_model_info(source: ModelSource, model: SyntheticModel, tokenizer: Tokenizer) -> ModelInfo:
    """Return the identity of a synthetic model: its laws are a function of vocabulary, seed and eos."""
    laws = f"synthetic vocab={model.vocabulary} seed={model.seed} eos={model.eos!r}"
    return ModelInfo(
        name="synthetic",
        source=source.text,
        weights_digest=hashlib.sha256(laws.encode()).hexdigest(),
        tokenizer_digest=tokenizer.digest,
        vocabulary_size=model.vocabulary,
        longest_context=model.context,
        dtype=Dtype.FLOAT32.value,
        eos_ids=tokenizer.eos_ids,
    )
