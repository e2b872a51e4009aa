"""`foreword models`: results on stdout, progress on stderr, one line and a status for what fails."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint

import pytest

from foreword.cli.app import COMMANDS
from foreword.cli.model_progress import ModelProgress
from tests.unit.models.kit import write_gguf, write_tokenizer

MODELS = [EntryPoint("models", "foreword.cli.models:app", COMMANDS)]


@pytest.fixture
def models(cli):
    return lambda *argv: cli("models", *argv, more=MODELS)


@pytest.fixture
def folder(tmp_path):
    path = write_tokenizer(tmp_path / "model")
    (path / "config.json").write_text("{}")
    (path / "model.safetensors").write_bytes(bytes(1000))
    return path


def test_a_folder_is_where_it_is(models, folder, tmp_path):
    for command in ("fetch", "path"):
        result = models(command, "--source", str(folder), "--cache", str(tmp_path / "cache"))
        assert (result.status, result.out, result.err) == (0, f"{folder}\n", "")


def test_json(models, folder):
    result = models("path", "--source", str(folder), "--json")
    found = json.loads(result.out)
    assert (found["source"], found["path"]) == (str(folder), str(folder))
    assert found["bytes"] > 1000


def test_a_file_is_converted_found_and_listed(models, tmp_path):
    gguf, cache = write_gguf(tmp_path / "tiny.gguf"), ("--cache", str(tmp_path / "cache"))
    missing = models("path", "--source", str(gguf), *cache)
    assert (missing.status, missing.out) == (1, "")
    assert f"foreword models fetch --source {gguf} --cache {tmp_path}/cache)" in missing.err
    fetched = models("fetch", "--source", str(gguf), *cache)
    assert (fetched.status, fetched.err) == (0, "convert tiny.gguf\n")
    assert models("path", "--source", str(gguf), *cache).out == fetched.out
    listed = json.loads(models("list", *cache, "--json").out)
    assert [entry["path"] for entry in listed["models"]] == [fetched.out.strip()]
    assert "MB" in models("list", *cache).out


def test_an_empty_cache_is_an_empty_list(models, tmp_path):
    result = models("list", "--cache", str(tmp_path / "none"), "--json")
    assert json.loads(result.out) == {"cache": str(tmp_path / "none"), "models": []}
    shown = models("list", "--cache", str(tmp_path / "none"))
    assert (shown.status, shown.out, shown.err) == (0, "", f"no model in {tmp_path}/none\n")


def test_a_cache_that_is_no_folder_is_refused(models, tmp_path):
    (tmp_path / "file").write_text("")
    result = models("list", "--cache", str(tmp_path / "file"))
    assert (result.status, result.err) == (2, f"--cache: got '{tmp_path}/file', wanted a folder\n")


@pytest.mark.parametrize(
    ("argv", "status", "named"),
    [
        (("fetch", "--source", "/no/such"), 1, "--source: no folder /no/such"),
        (("fetch", "--source", "a b"), 2, "hub id"),
        (("fetch", "--source", "synthetic"), 2, "with weights"),
        (("path", "--source", "nobody/nothing"), 1, "not fetched yet"),
        (("fetch", "--sauce", "x"), 2, "--sauce"),
    ],
)
def test_failures_are_one_line(models, tmp_path, argv, status, named):
    result = models(*argv, "--cache", str(tmp_path))
    assert (result.status, result.out) == (status, "")
    assert named in result.err
    assert result.err.count("\n") == 1


def test_a_cache_that_cannot_be_written_is_one_line(models, tmp_path):
    cache = tmp_path / "cache"
    cache.write_text("")
    result = models("fetch", "--cache", str(cache))
    said = f"cache: got {cache}, wanted a folder that can be written ({cache}/downloads: Not a directory); "
    assert (result.status, result.out) == (1, "")
    assert result.err == f"{said}flag --cache or FOREWORD_CACHE names another\n"


def test_progress_off_a_terminal_is_a_line_a_step(capsys):
    with ModelProgress() as progress:
        for done in (100, 200, 300):
            progress("x.whl", done, 300)
        progress("convert x.gguf", 0, 0)
    assert capsys.readouterr().err == (
        "x.whl: 100 of 300 bytes are there\nx.whl: all 300 bytes are there\nconvert x.gguf\n"
    )
