"""A cache that cannot be written is named with the reason, at whichever step; no network is asked for it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foreword.errors import Unavailable
from foreword.models.cache import kept_in
from foreword.models.convert import converted
from foreword.models.fetch import Sources, fetch_wheel
from foreword.models.hub import fetch_repository
from foreword.models.identity import weights_digest
from foreword.models.local import cached_folder, local_folder
from foreword.models.source import parse_source
from tests.unit.models.kit import write_gguf
from tests.unit.models.server import serve
from tests.unit.models.test_fetch import WHEEL, no_hub, no_pip, site_with, sources


@pytest.fixture
def blocked(tmp_path: Path) -> Path:
    """Return a folder that cannot be made, whoever runs this: a file is in its place."""
    path = tmp_path / "cache"
    path.write_text("")
    return path


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(Unavailable) as caught:
        call()
    return caught.value.message


def test_a_file_in_the_place_of_the_cache(blocked: Path, tmp_path: Path) -> None:
    gguf, weights = write_gguf(tmp_path / "tiny.gguf"), tmp_path / "weights"
    weights.mkdir()
    (weights / "model.safetensors").write_bytes(b"x")
    for call, place in (
        (lambda: local_folder(parse_source("embedded"), blocked), "downloads"),
        (lambda: local_folder(parse_source(str(gguf)), blocked), "converted"),
        (lambda: weights_digest(weights, blocked), "digests"),
    ):
        assert refused(call) == (
            f"cache: got {blocked}, wanted a folder that can be written ({blocked}/{place}: Not a directory); "
            "flag --cache or FOREWORD_CACHE names another"
        )
    assert cached_folder(parse_source("embedded"), blocked) is None


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EDQUOT])
def test_whatever_the_file_system_says(number: int, tmp_path: Path) -> None:
    def fail(*name: str) -> None:
        with kept_in(tmp_path):
            raise OSError(number, os.strerror(number), *name)

    said = f"cache: got {tmp_path}, wanted a folder that can be written"
    assert refused(fail).startswith(f"{said} ({os.strerror(number)})")
    inside = str(tmp_path / "downloads" / "x")
    assert refused(lambda: fail(inside)).startswith(f"{said} ({inside}: {os.strerror(number)})")
    assert refused(lambda: fail("/elsewhere/x")) == f"/elsewhere/x: {os.strerror(number)}"


def full_after(opened: Callable[..., Any], suffix: str) -> Callable[..., Any]:
    """Return an `open` of paths whose files of this suffix take nothing, as on a full disk."""

    def open_(self: Path, mode: str = "r", **options: Any) -> Any:
        file = opened(self, mode, **options)
        if self.suffix == suffix and mode in ("wb", "r+b"):
            file.close()
            return opened(Path("/dev/full"), "wb", buffering=0)
        return file

    return open_


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("suffix", [".part", ".unpacked"])
def test_a_disk_that_fills_up_is_no_failure_of_the_network(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither tried again nor hidden behind what other sources answer."""
    monkeypatch.setattr(Path, "open", full_after(Path.open, suffix))

    def fetch(found: Sources) -> None:
        with kept_in(tmp_path):
            fetch_wheel(WHEEL, tmp_path, sources=found)

    with serve(site_with()) as site:
        message = refused(lambda: fetch(sources(site)))
        asked = [path for path, *_ in site.asked if path.startswith("/files/")]
    assert message.startswith(f"cache: got {tmp_path}, wanted a folder that can be written (No space left on device)")
    assert len(asked) == 1


def test_nothing_is_asked_where_nothing_can_be_kept(blocked: Path) -> None:
    with pytest.raises(NotADirectoryError):
        fetch_wheel(WHEEL, blocked, sources=Sources(lambda: pytest.fail("asked"), no_pip, no_hub))
    with pytest.raises(NotADirectoryError):
        converted(Path(__file__), blocked)


def test_the_hubs_own_cache_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("huggingface_hub.snapshot_download", full)
    assert refused(lambda: fetch_repository("owner/name", None)) == (
        "model owner/name: the hub's cache cannot be written ([Errno 28] No space left on device)"
    )
