"""GGUF files to folders of safetensors, once: weights de-quantised to float32, config, tokenizer, chat template."""

from __future__ import annotations

import hashlib
import io
import shutil
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

from foreword.errors import Mismatch, Unavailable
from foreword.models.locks import exclusive
from foreword.models.progress import Progress, silent
from foreword.models.quiet import quiet
from foreword.models.weights_file import share_weights
from foreword.models.whole import check_complete


def converted(gguf: Path, cache: Path, *, progress: Progress = silent) -> Path:
    """Return the folder in `cache` that `gguf` was or is now converted to.

    The folder is complete or not there. It is found again by the file's path, size and time of change.
    Raises Mismatch for a file that transformers cannot read, or that lacks a tensor.
    """
    folder = conversion_folder(gguf, cache)
    if folder.is_dir():
        return folder
    with exclusive(folder.with_name(f"{folder.name}.lock")):
        if not folder.is_dir():
            progress(f"convert {gguf.name}", 0, 0)
            _convert(gguf, folder)
    return folder


def conversion_folder(gguf: Path, cache: Path) -> Path:
    """Return where the conversion of a file that is there has its place in `cache`."""
    return cache / "converted" / f"{gguf.stem}-{_identity(gguf)}"


def _convert(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    where, name = str(gguf.parent), gguf.name
    # The reader draws a bar on standard error that no switch turns off.
    with quiet(), redirect_stderr(io.StringIO()):
        try:
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                where,
                gguf_file=name,
                dtype=torch.float32,
                quantization_config=GgufConfig(dequantize=True),
                local_files_only=True,
                output_loading_info=True,
            )
            tokenizer = AutoTokenizer.from_pretrained(where, gguf_file=name, local_files_only=True)
        except Exception as error:
            # The reader raises whatever its parsing runs into.
            raise Mismatch(
                f"model {gguf}: not a GGUF model that can be read: {type(error).__name__}: {error}"
            ) from error
        model, found = loaded
        check_complete(gguf, found)
        try:
            model.save_pretrained(unfinished)
            share_weights(unfinished)
            tokenizer.save_pretrained(unfinished)
            unfinished.replace(folder)
        except Exception as error:
            # A full disk is an OSError or an error of safetensors.
            raise Unavailable(f"{folder}: cannot be written: {type(error).__name__}: {error}") from error


def _identity(gguf: Path) -> str:
    path = gguf.resolve()
    state = path.stat()
    return hashlib.sha256(f"{path}\n{state.st_size}\n{state.st_mtime_ns}".encode()).hexdigest()[:12]
