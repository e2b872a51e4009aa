"""What users write to name a model."""

from __future__ import annotations

import pytest

from foreword.errors import ForewordError, InvalidField, NotFound
from foreword.models.local import check_there
from foreword.models.source import Embedded, Folder, GgufFile, Hub, parse_source
from foreword.models.synthetic import SyntheticModel


@pytest.mark.parametrize(
    ("text", "where", "layers"),
    [
        ("embedded", Embedded(), None),
        (" embedded#layers=8 ", Embedded(), 8),
        ("gpt2", Hub("gpt2"), None),
        ("Qwen/Qwen2.5-0.5B", Hub("Qwen/Qwen2.5-0.5B"), None),
        ("owner/name@refs/pr/1#layers=2", Hub("owner/name", "refs/pr/1"), 2),
        ("synthetic", SyntheticModel(), None),
        ("synthetic:", SyntheticModel(), None),
        (
            "synthetic:vocab=128,step_ms=2.5,slope_ms=1,knee=4,agreement=0.5,seed=9,context=512,eos=0.01",
            SyntheticModel(128, 2.5, 1.0, 4, 0.5, 9, 512, 0.01),
            None,
        ),
    ],
)
def test_good_sources(text, where, layers):
    source = parse_source(text)
    assert (source.where, source.layers, source.text) == (where, layers, text.strip())
    assert source.synthetic == (where if isinstance(where, SyntheticModel) else None)


def test_paths(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    (tmp_path / "a.gguf").touch()
    monkeypatch.chdir(tmp_path)
    assert parse_source(f"{tmp_path}/folder").where == Folder(tmp_path / "folder")
    assert parse_source("folder#layers=1").where == Folder((tmp_path / "folder").relative_to(tmp_path))
    assert parse_source(f"{tmp_path}/a.gguf").where == GgufFile(tmp_path / "a.gguf")


@pytest.mark.parametrize(
    ("text", "kind", "named"),
    [
        ("", InvalidField, "embedded"),
        ("/no/such/folder", NotFound, "/no/such/folder"),
        ("./none", NotFound, "./none"),
        ("none.gguf", NotFound, "none.gguf"),
        ("a b", InvalidField, "hub id"),
        ("a/b/c", InvalidField, "hub id"),
        ("owner/name@", InvalidField, "hub id"),
        ("owner/na me", InvalidField, "hub id"),
        ("embedded#", InvalidField, "#layers=K"),
        ("embedded#layers=0", InvalidField, "#layers=K"),
        ("embedded#layers=-1", InvalidField, "#layers=K"),
        ("embedded#layers=2#layers=3", InvalidField, "#layers=K"),
        ("synthetic#layers=2", InvalidField, "without #layers"),
        ("synthetic:vocabulary=64", InvalidField, "vocab, step_ms"),
        ("synthetic:vocab", InvalidField, "whole number"),
        ("synthetic:vocab=6.5", InvalidField, "whole number"),
        ("synthetic:vocab=7", InvalidField, "from 8"),
        ("synthetic:seed=1,seed=2", InvalidField, "once"),
        ("synthetic:agreement=1.1", InvalidField, "from 0 to 1"),
        ("synthetic:agreement=nan", InvalidField, "from 0 to 1"),
        ("synthetic:step_ms=inf", InvalidField, "milliseconds"),
        ("synthetic:slope_ms=-1", InvalidField, "milliseconds"),
        ("synthetic:knee=-1", InvalidField, "from 0"),
        ("synthetic:context=0", InvalidField, "from 1"),
        ("synthetic:seed=-1", InvalidField, "2**64"),
        ("synthetic:eos=2", InvalidField, "from 0 to 1"),
    ],
)
def test_bad_sources_say_in_one_line_what_is_allowed(text, kind, named):
    with pytest.raises(ForewordError) as caught:
        parse_source(text)
    assert type(caught.value) is kind
    assert named in caught.value.message
    assert "\n" not in caught.value.message


def test_a_hub_id_of_one_word_is_a_model_where_it_is_cached_and_else_a_typing_error(monkeypatch, tmp_path):
    monkeypatch.setattr("foreword.models.local.cached_repository", lambda name, _: tmp_path if name == "gpt2" else None)
    check_there("gpt2")
    check_there("owner/name")
    with pytest.raises(InvalidField, match=r"draft: got 'gpt3', wanted .* a hub id like owner/name"):
        check_there("gpt3", field="draft")
