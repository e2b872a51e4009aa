"""A distilled draft as a plain model: transformers and others take it as an assistant of the same target."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from draft_service.folder.load import load_draft
from draft_service.folder.target import load_frame
from foreword.models.local import local_folder
from foreword.models.quiet import quiet
from foreword.models.source import parse_source
from foreword.models.weights_file import share_weights


def export_draft(folder: Path, out: Path, *, target: str, cache: Path) -> None:
    """Write config, weights and tokenizer to `out`; the head is the target's whole one. Raises what loading raises."""
    loaded = load_draft(folder, target=target, cache=cache)
    source = parse_source(target or loaded.card.target.source)
    frame = load_frame(source, cache=cache, threads=None)
    model: Any = loaded.module
    head = frame.module.get_output_embeddings()  # type: ignore[no-untyped-call]
    model.set_output_embeddings(head)
    model.config.tie_word_embeddings = False
    with quiet():
        model.save_pretrained(out)
    share_weights(out)
    for file in local_folder(source, cache).glob("*token*"):
        shutil.copy(file, out / file.name)
    for name in ("generation_config.json", "special_tokens_map.json", "chat_template.jinja"):
        if (extra := local_folder(source, cache) / name).is_file():
            shutil.copy(extra, out / name)
