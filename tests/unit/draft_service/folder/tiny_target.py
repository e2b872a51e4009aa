"""A random target in a folder, with a vocabulary of bytes and room for conversations."""

from __future__ import annotations

from pathlib import Path

from tests.unit.models.kit import write_tokenizer
from tests.unit.runner.tiny import config, module

ROWS = 270


def write_target(folder: Path, *, seed: int = 0) -> Path:
    """Write it; `seed` is of its weights."""
    made = config("llama", vocab_size=ROWS, max_position_embeddings=900, eos_token_id=2)
    module(made, seed=seed).save_pretrained(folder)
    return write_tokenizer(folder)
