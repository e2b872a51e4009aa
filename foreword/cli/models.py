"""`foreword models`: fetch what a source names, say where it is, list what the cache holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from foreword.cli.commands import new_app
from foreword.cli.model_progress import ModelProgress
from foreword.cli.options import Json
from foreword.cli.output import stderr, stdout, write_json
from foreword.errors import InvalidField, NotFound
from foreword.models.local import cached_folder, check_there, local_folder
from foreword.models.source import ALLOWED, ModelSource, is_synthetic, parse_source
from foreword.settings.environment import cache_folder

_WORDS = ("bundled", "lookup", "none")
"""What other settings take in the place of a model."""

app = new_app()

Source = Annotated[str, typer.Option(help="embedded, a folder, a .gguf file, or a hub id like owner/name.")]
Cache = Annotated[
    Path | None, typer.Option(help="Folder of fetched models.", show_default="FOREWORD_CACHE, or the user's cache")
]


@app.callback()
def models() -> None:
    """Fetch models, and see which are there."""


@app.command()
def fetch(source: Source = "embedded", cache: Cache = None, as_json: Json = False) -> None:
    """Fetch and convert a model, so that services start at once and offline; goes on where it was interrupted."""
    parsed = _with_weights(source)
    check_there(source, field="source")
    with ModelProgress() as progress:
        folder = local_folder(parsed, cache_folder(cache), progress=progress)
    _say(source, folder, as_json=as_json)


@app.command()
def path(source: Source = "embedded", cache: Cache = None, as_json: Json = False) -> None:
    """Print the folder of a model that is there already."""
    folder = cached_folder(_with_weights(source), cache_folder(cache))
    if folder is None:
        where = "" if cache is None else f" --cache {cache}"
        raise NotFound(f"model {source}: not fetched yet (foreword models fetch --source {source}{where})")
    _say(source, folder, as_json=as_json)


@app.command("list")
def list_models(cache: Cache = None, as_json: Json = False) -> None:
    """List what the cache holds; the hub's own cache is listed by `hf cache ls`."""
    folder = cache_folder(cache)
    if folder.exists() and not folder.is_dir():
        raise InvalidField("cache", str(folder), "a folder")
    found = [
        _entry(path)
        for path in sorted(folder.glob("converted/*"))
        if path.suffix != ".unfinished" and (path / "config.json").is_file()
    ]
    found += [_entry(path) for path in sorted(folder.glob("downloads/*.gguf"))]
    if as_json:
        write_json(stdout(), {"cache": str(folder), "models": found})
        return
    if not found:
        stderr().print(f"no model in {folder}", markup=False)
    for entry in found:
        stdout().print(f"{entry['bytes'] / 1e6:8.1f} MB  {entry['path']}")


def _with_weights(source: str) -> ModelSource:
    """Return what `source` names; raises InvalidField for what is no model with weights of its own."""
    if is_synthetic(source) or source in _WORDS:
        raise InvalidField("source", source, "a model with weights of its own: " + ALLOWED)
    return parse_source(source, field="source")


def _say(source: str, folder: Path, *, as_json: bool) -> None:
    if as_json:
        write_json(stdout(), {"source": source, "path": str(folder), "bytes": _size(folder)})
    else:
        stdout().print(str(folder), markup=False)


def _entry(path: Path) -> dict[str, Any]:
    return {"path": str(path), "bytes": _size(path)}


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())
