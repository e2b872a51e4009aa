"""Text of the model that is served: defaults, special ids, what stands before an output."""

from __future__ import annotations

from pathlib import Path

import pytest

from foreword.errors import Mismatch
from foreword.laws.parameters import LawParameters
from foreword.models.synthetic import SyntheticModel
from foreword.models.synthetic_tokenizer import SyntheticTokenizer
from foreword.models.tokenizer import GenerationDefaults
from foreword.protocol.generation import Chat, Message
from foreword.protocol.info import ModelInfo
from orchestrator.front.text import ModelText, law_of
from orchestrator.tokenizers import load_text

EOS = 15


@pytest.fixture
def text() -> ModelText:
    return ModelText(SyntheticTokenizer(SyntheticModel(vocabulary=16, eos=0.1)), GenerationDefaults())


def test_text_and_ids_there_and_back(text: ModelText) -> None:
    ids = text.encode(" w3 w4")
    assert ids == (3, 4)
    assert text.decode(ids, skip_special=True) == " w3 w4"
    assert len(text.encode_chat(Chat((Message("user", "w3"),)))) == 3


@pytest.mark.parametrize(("skip", "wanted"), [(True, " w3 w4"), (False, " w3 w15 w4")])
def test_special_ids_are_left_out_or_named(text: ModelText, skip: bool, wanted: str) -> None:
    assert text.decode((3, EOS, 4), skip_special=skip) == wanted
    stream = text.stream((1, 2), skip_special=skip)
    assert "".join(map(stream.push, (3, EOS, 4))) + stream.finish() == wanted


def test_a_long_context_before_the_output_is_not_put_out(text: ModelText) -> None:
    stream = text.stream((1,) * 500, skip_special=True)
    assert stream.push(2) + stream.finish() == " w2"


def test_defaults_of_the_makers() -> None:
    assert law_of(GenerationDefaults()) == LawParameters(temperature=1.0)
    given = GenerationDefaults(temperature=0.0, top_k=0, top_p=0.9, min_p=0.05, repetition_penalty=1.1)
    assert law_of(given) == LawParameters(0.0, None, 0.9, 0.05, 1.1)
    assert law_of(GenerationDefaults(top_k=50)).top_k == 50


def info(source: str, digest: str = "0" * 64) -> ModelInfo:
    return ModelInfo("m", source, "", digest, 16, 512, "float32")


def test_a_target_on_another_machine_needs_the_tokenizer_named(tmp_path: Path) -> None:
    with pytest.raises(Mismatch, match="--model"):
        load_text("", info("/nowhere/at/all"), tmp_path)


def test_the_targets_synthetic_source_serves_by_itself(tmp_path: Path) -> None:
    digest = SyntheticTokenizer(SyntheticModel(vocabulary=16)).digest
    loaded = load_text("", info("synthetic:vocab=16,seed=1", digest), tmp_path)
    assert loaded.encode("w7") == (7,)


def test_another_tokenizer_than_the_targets_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Mismatch, match="000000000000"):
        load_text("", info("synthetic:vocab=16,seed=1"), tmp_path)
