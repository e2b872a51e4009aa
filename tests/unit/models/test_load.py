"""Loading real models, tiny ones: formats, layers, identity, and what is refused in one line."""

from __future__ import annotations

import json
import re
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from foreword.errors import Corrupted, ForewordError, InvalidField, Mismatch, NotFound
from foreword.models.convert import converted
from foreword.models.dtype import Dtype
from foreword.models.fast_tokenizer import FastTokenizer
from foreword.models.identity import real_model_info, weights_digest
from foreword.models.load import load_model
from foreword.models.local import cached_folder, local_folder
from foreword.models.source import parse_source
from foreword.models.synthetic_tokenizer import SyntheticTokenizer
from foreword.runner.build import build_runner
from foreword.runner.port import Rows
from foreword.testing.synthetic import Side
from tests.unit.models.kit import write_gguf, write_model


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture
def folder(made, tmp_path):
    return shutil.copytree(made, tmp_path / "tiny")


def test_a_folder_is_loaded_and_known(folder, tmp_path):
    steps: list[str] = []
    loaded = load_model(parse_source(str(folder)), cache=tmp_path, progress=lambda what, *_: steps.append(what))
    info = loaded.info
    assert loaded.module.dtype == torch.float32
    assert not loaded.module.training
    assert (info.vocabulary_size, info.longest_context, info.dtype) == (261, 128, "float32")
    assert info.eos_ids == (0, 2)
    assert info.tokenizer_digest == loaded.tokenizer.digest
    assert len(info.weights_digest) == 64
    assert steps == [f"load {folder}"]


def test_formats(folder, tmp_path):
    loaded = load_model(parse_source(str(folder)), dtype=Dtype.BFLOAT16, cache=tmp_path)
    assert loaded.module.dtype == torch.bfloat16
    assert loaded.info.dtype == "bfloat16"


def test_a_built_runner_knows_no_padding(folder, tmp_path):
    built = build_runner(parse_source(str(folder)), side=Side.TARGET, cache=tmp_path)
    built.runner.open(0)
    (logits,) = built.runner.forward([Rows(0, built.tokenizer.encode("the"), 1)])
    assert logits.shape == (1, 261)
    assert built.cache_tokens is not None
    assert built.cache_tokens > 0


def test_the_first_layers_are_a_model(folder, tmp_path):
    whole = load_model(parse_source(str(folder)), cache=tmp_path)
    part = load_model(parse_source(f"{folder}#layers=2"), cache=tmp_path)
    assert len(part.module.model.layers) == 2
    state = whole.module.state_dict()
    assert all(torch.equal(value, state[name]) for name, value in part.module.state_dict().items())
    assert part.info.weights_digest == f"{whole.info.weights_digest}#layers=2"
    with pytest.raises(InvalidField, match="from 1 to 3"):
        load_model(parse_source(f"{folder}#layers=4"), cache=tmp_path)


def test_digests_are_kept_until_a_file_changes(folder, tmp_path, monkeypatch):
    first = weights_digest(folder, tmp_path)
    monkeypatch.setattr("foreword.models.identity.sha256_of", lambda _: pytest.fail("read again"))
    assert weights_digest(folder, tmp_path) == first
    monkeypatch.undo()
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"!")
    assert weights_digest(folder, tmp_path) != first


def changed(folder, **fields):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | fields))


@pytest.mark.parametrize(
    "fields",
    [
        {"rope_parameters": {"rope_type": "default", "rope_theta": 77.0}},
        {"hidden_act": "relu"},
        {"rms_norm_eps": 0.5},
        {"num_attention_heads": 2},
        {"max_position_embeddings": 64},
        {"eos_token_id": 1},
        {"text_config": {"sliding_window": 8}},
    ],
)
def test_a_config_that_computes_something_else_is_another_model(folder, tmp_path, fields):
    first = weights_digest(folder, tmp_path)
    changed(folder, **fields)
    assert weights_digest(folder, tmp_path) != first


def test_how_a_config_was_saved_is_no_part_of_a_model(folder, tmp_path):
    changed(folder, text_config={"hidden_size": 3})
    first = weights_digest(folder, tmp_path)
    path = folder / "config.json"
    turned = dict(reversed(json.loads(path.read_bytes()).items()))
    path.write_text(json.dumps(turned, indent=7))
    saved = {"transformers_version": "4.0", "_name_or_path": "elsewhere", "torch_dtype": "bfloat16", "use_cache": False}
    changed(folder, **saved, text_config={"hidden_size": 3, **saved})
    assert weights_digest(folder, tmp_path) == first


def _without(folder, *parts):
    path = folder / "model.safetensors"
    held = load_file(path)
    save_file({name: one for name, one in held.items() if not any(p in name for p in parts)}, path, {"format": "pt"})


def _no_query(folder):
    _without(folder, "layers.1.self_attn.q_proj")


def _too_few_layers_stored(folder):
    changed(folder, num_hidden_layers=9, layer_types=None)


def _too_many_layers_stored(folder):
    changed(folder, num_hidden_layers=2, layer_types=None)


def _no_head(folder):
    _without(folder, "lm_head")


def _spare(folder):
    path = folder / "model.safetensors"
    save_file(load_file(path) | {"model.spare": torch.zeros(3)}, path, {"format": "pt"})


@pytest.mark.parametrize(
    ("harm", "wanted"),
    [
        (_no_query, "model.layers.1.self_attn.q_proj.weight is missing"),
        (_too_few_layers_stored, "model.layers.3.input_layernorm.weight and 53 more are missing"),
        (_too_many_layers_stored, "model.layers.2.input_layernorm.weight and 8 more are stored but not used"),
        (_no_head, "lm_head.weight is missing"),
        (_spare, "model.spare is stored but not used"),
    ],
)
def test_a_model_is_all_that_its_config_names_and_no_more(folder, tmp_path, harm, wanted):
    harm(folder)
    with pytest.raises(Mismatch, match=re.escape(wanted)):
        load_model(parse_source(str(folder)), cache=tmp_path)


def test_the_first_layers_alone_need_no_others_but_all_of_their_own(folder, tmp_path):
    _without(folder, "layers.2.mlp")
    load_model(parse_source(f"{folder}#layers=1"), cache=tmp_path)
    _spare(folder)
    with pytest.raises(Mismatch, match=r"model\.spare is stored"):
        load_model(parse_source(f"{folder}#layers=1"), cache=tmp_path)
    _without(folder, "layers.0.mlp.up", "model.spare")
    with pytest.raises(Mismatch, match=r"layers\.0\.mlp\.up_proj\.weight is missing"):
        load_model(parse_source(f"{folder}#layers=1"), cache=tmp_path)


def test_a_tied_head_is_not_missing(folder, tmp_path):
    changed(folder, tie_word_embeddings=True)
    _no_head(folder)
    module = load_model(parse_source(str(folder)), cache=tmp_path).module
    assert module.get_output_embeddings().weight is module.get_input_embeddings().weight


def test_an_end_that_the_embedding_has_no_row_for_is_refused(tmp_path, folder):
    with pytest.raises(Mismatch, match="eos_token_id: got 2, wanted token ids below 2"):
        real_model_info(
            parse_source(str(folder)),
            folder,
            FastTokenizer(folder),
            embedding_rows=2,
            longest_context=9,
            dtype=Dtype.FLOAT32,
            cache=tmp_path,
        )


def test_a_larger_tokenizer_than_embedding(tmp_path, folder):
    tokenizer = SyntheticTokenizer(parse_source("synthetic").synthetic)
    source = parse_source(str(folder))
    info = real_model_info(
        source, folder, tokenizer, embedding_rows=60, longest_context=9, dtype=Dtype.FLOAT32, cache=tmp_path
    )
    assert info.vocabulary_size == 60
    with pytest.raises(Mismatch, match="max_position_embeddings"):
        real_model_info(
            source, folder, tokenizer, embedding_rows=60, longest_context=None, dtype=Dtype.FLOAT32, cache=tmp_path
        )


def _only_a_pickle(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def _no_weights(folder):
    (folder / "model.safetensors").unlink()


def _cut_weights(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:5000])


def _no_config(folder):
    (folder / "config.json").unlink()


def _broken_config(folder):
    (folder / "config.json").write_text("{")


def _unknown_model(folder):
    (folder / "config.json").write_text('{"model_type": "nobody_knows"}')


def _remote_code(folder):
    config = json.loads((folder / "config.json").read_text())
    own = {"model_type": "their_own", "auto_map": {"AutoConfig": "theirs.Config", "AutoModelForCausalLM": "theirs.M"}}
    (folder / "config.json").write_text(json.dumps(config | own))
    (folder / "theirs.py").write_text("raise SystemExit('never run')")


def _no_tokenizer(folder):
    (folder / "tokenizer.json").unlink()


def _broken_tokenizer(folder):
    (folder / "tokenizer.json").write_text("{}")


@pytest.mark.parametrize(
    ("harm", "kind", "named"),
    [
        (_only_a_pickle, Mismatch, "pytorch_model.bin"),
        (_no_weights, NotFound, "safetensors"),
        (_cut_weights, Mismatch, "cannot be loaded"),
        (_no_config, NotFound, "config.json"),
        (_broken_config, Mismatch, "config.json"),
        (_unknown_model, Mismatch, "nobody_knows"),
        (_remote_code, Mismatch, "config.json"),
        (_no_tokenizer, NotFound, "tokenizer.json"),
        (_broken_tokenizer, Corrupted, "tokenizer.json"),
    ],
)
def test_what_cannot_be_loaded_is_refused_in_one_line(folder, tmp_path, harm, kind, named):
    harm(folder)
    with pytest.raises(ForewordError) as caught:
        load_model(parse_source(str(folder)), cache=tmp_path)
    assert type(caught.value) is kind
    assert named in caught.value.message
    assert "\n" not in caught.value.message


def test_a_hub_model_that_is_not_there_offline(tmp_path):
    source = parse_source("nobody/nothing-at-all")
    with pytest.raises(NotFound, match="nobody/nothing-at-all: not cached"):
        local_folder(source, tmp_path)
    assert cached_folder(source, tmp_path) is None


def test_synthetic_models_have_no_folder(tmp_path):
    for call in (local_folder, cached_folder):
        with pytest.raises(InvalidField, match="with weights"):
            call(parse_source("synthetic"), tmp_path)


def test_a_gguf_file_is_converted_once(tmp_path, capsys):
    path = write_gguf(tmp_path / "tiny.gguf")
    source = parse_source(str(path))
    assert cached_folder(source, tmp_path / "cache") is None
    capsys.readouterr()
    loaded = load_model(source, cache=tmp_path / "cache")
    assert capsys.readouterr() == ("", "")
    folder = loaded.folder
    assert cached_folder(source, tmp_path / "cache") == folder
    assert (loaded.info.vocabulary_size, loaded.info.longest_context, loaded.info.eos_ids) == (261, 128, (2,))
    assert loaded.tokenizer.decode(loaded.tokenizer.encode("the ä😀")) == "the ä😀"
    assert loaded.tokenizer.special_ids == {0, 1, 2}
    assert loaded.tokenizer.has_chat_template
    assert (folder / "model.safetensors").stat().st_mode == (folder / "config.json").stat().st_mode, "for everybody"
    before = (folder / "model.safetensors").stat().st_mtime_ns
    assert converted(path, tmp_path / "cache") == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == before
    assert not list(folder.parent.glob("*.unfinished"))


def test_an_unfinished_conversion_is_done_again(tmp_path):
    path = write_gguf(tmp_path / "tiny.gguf")
    done = converted(path, tmp_path / "cache")
    unfinished = done.rename(done.with_name(f"{done.name}.unfinished"))
    (unfinished / "config.json").write_text("half")
    assert json.loads((converted(path, tmp_path / "cache") / "config.json").read_text())["model_type"] == "llama"
    assert not unfinished.exists()


def test_a_gguf_file_that_lacks_a_tensor_is_refused(tmp_path):
    path = write_gguf(tmp_path / "tiny.gguf", without="blk.0.attn_q")
    with pytest.raises(Mismatch, match=r"tiny\.gguf: model\.layers\.0\.self_attn\.q_proj\.weight is missing"):
        converted(path, tmp_path / "cache")
    assert not list((tmp_path / "cache" / "converted").glob("*/"))


def test_what_is_no_gguf_file_is_refused_in_one_line(tmp_path):
    path = tmp_path / "bad.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(Mismatch, match=r"bad\.gguf") as caught:
        converted(path, tmp_path / "cache")
    assert "\n" not in caught.value.message
