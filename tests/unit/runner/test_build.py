"""Runners from what users write."""

from __future__ import annotations

import subprocess
import sys

import pytest

from foreword import extras
from foreword.errors import NotFound
from foreword.models.source import parse_source
from foreword.runner.build import build_runner
from foreword.testing.synthetic import Side


def test_a_synthetic_pair_is_one_model(tmp_path):
    source = parse_source("synthetic:vocab=32,seed=7,context=99,step_ms=0")
    target = build_runner(source, side=Side.TARGET, cache=tmp_path)
    draft = build_runner(parse_source("synthetic:vocab=32,seed=7,step_ms=1"), side=Side.DRAFT, cache=tmp_path)
    assert target.runner.vocabulary_size == target.info.vocabulary_size == target.tokenizer.vocabulary_size == 32
    assert target.runner.longest_context == target.info.longest_context == 99
    assert target.info.tokenizer_digest == draft.info.tokenizer_digest
    assert target.info.weights_digest == draft.info.weights_digest
    other = build_runner(parse_source("synthetic:vocab=32,seed=8"), side=Side.TARGET, cache=tmp_path)
    assert other.info.weights_digest != target.info.weights_digest


def test_synthetic_models_need_no_torch(tmp_path):
    code = (
        "import sys; from pathlib import Path; from foreword.runner.build import build_runner;"
        "from foreword.models.source import parse_source; from foreword.testing.synthetic import Side;"
        f"build_runner(parse_source('synthetic'), side=Side.TARGET, cache=Path({str(tmp_path)!r}));"
        "assert not {'torch', 'transformers', 'tokenizers', 'jinja2'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_what_runs_real_models_is_asked_for_before_they_are_fetched(tmp_path, monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    hint = r"needs torch; install the extra: pip install '\.\[models\]' in the checkout"
    with pytest.raises(NotFound, match=hint):
        build_runner(parse_source("embedded"), side=Side.TARGET, cache=tmp_path)
    assert list(tmp_path.iterdir()) == []
    build_runner(parse_source("synthetic"), side=Side.TARGET, cache=tmp_path)
