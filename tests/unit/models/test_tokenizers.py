"""Tokenizers of real and synthetic models: ids, chat prompts, what peers compare."""

from __future__ import annotations

import hashlib
import json
import struct

import pytest
from tokenizers import processors

from foreword.errors import Corrupted, InvalidField, NotFound
from foreword.models.fast_tokenizer import FastTokenizer
from foreword.models.load_tokenizer import load_tokenizer
from foreword.models.source import parse_source
from foreword.models.synthetic import SyntheticModel
from foreword.models.synthetic_tokenizer import SyntheticTokenizer
from foreword.models.tokenizer import ChatMessage, GenerationDefaults, digest_of
from tests.unit.models.kit import byte_level, metaspace, write_tokenizer

HELLO = [ChatMessage("user", "Hello <b>&")]


@pytest.fixture
def folder(tmp_path):
    return write_tokenizer(tmp_path)


def test_text_to_ids_and_back(folder):
    tokenizer = FastTokenizer(folder)
    ids = tokenizer.encode("the ä 😀")
    assert tokenizer.decode((1, *ids, 2)) == "the ä 😀"
    assert b"".join(tokenizer.token_bytes(token) for token in ids) == "the ä 😀".encode()
    assert tokenizer.vocabulary_size == 261
    assert tokenizer.special_ids == {0, 1, 2}
    assert tokenizer.eos_ids == (2,)


def test_the_chat_prompt_is_that_of_smollm2(folder):
    tokenizer = FastTokenizer(folder)
    ids = tokenizer.chat(HELLO)
    assert ids[0] == 1
    text = byte_level().decode(list(ids), skip_special_tokens=False)
    assert text == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHello <b>&<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_template_in_its_own_file_comes_first(folder):
    (folder / "chat_template.jinja").write_text("{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}")
    assert FastTokenizer(folder).chat(HELLO) == (1, *FastTokenizer(folder).encode("Hello <b>&"))


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{% if tools is not none %}tools{% endif %}{% if tools %}t{% endif %}x", "x"),
        ("{%- for m in messages %}\n    {%- generation %}{{ m.content | trim }}{% endgeneration %}{% endfor %}", "the"),
        ("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "01"),
        ("{{ messages | tojson }}", '[{"role": "user", "content": " the "}]'),
        ("{{ strftime_now('%Y')[:2] }}", "20"),
    ],
)
def test_helpers_of_templates(folder, template, text):
    (folder / "chat_template.jinja").write_text(template)
    tokenizer = FastTokenizer(folder)
    assert tokenizer.decode(tokenizer.chat([ChatMessage("user", " the ")])) == text


@pytest.mark.parametrize(
    ("template", "named"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{% for %}", "chat template"),
        ("{{ messages.__class__.__mro__ }}", "messages"),
    ],
)
def test_conversations_that_cannot_be_are_refused_in_one_line(folder, template, named):
    (folder / "chat_template.jinja").write_text(template)
    with pytest.raises(InvalidField, match=named):
        FastTokenizer(folder).chat(HELLO)


@pytest.mark.parametrize(
    ("template", "known"),
    [
        (None, "system, user, assistant, tool"),
        ("{{ messages[0]['role'] != 'system' }}", "system, user, assistant, tool"),
        ("{% for m in messages %}{% if m.role == 'ipython' %}the{% endif %}{% endfor %}", "tool, ipython"),
        ("{% set r = messages[0] %}{{ r['role'] in ['context', 'tool'] or 'the' == r.content }}", "tool, context"),
    ],
)
def test_a_role_that_nobody_knows_is_refused_by_name(folder, template, known):
    if template is not None:
        (folder / "chat_template.jinja").write_text(template)
    tokenizer = FastTokenizer(folder)
    with pytest.raises(InvalidField) as refused:
        tokenizer.chat([*HELLO, ChatMessage("wizard", "the")])
    assert refused.value.message.startswith("messages[1].role: got 'wizard', wanted one of ")
    assert refused.value.message.endswith(known)
    for role in ("system", "assistant", "tool", *known.split(", ")):
        tokenizer.chat([*HELLO, ChatMessage(role, "the")])


def test_a_model_without_a_template_says_so(tmp_path):
    tokenizer = FastTokenizer(write_tokenizer(tmp_path, chat_template=None))
    assert not tokenizer.has_chat_template
    with pytest.raises(InvalidField, match="no chat template"):
        tokenizer.chat(HELLO)


def test_the_default_of_several_templates_is_used(tmp_path):
    templates = [{"name": "tool_use", "template": "no"}, {"name": "default", "template": "the"}]
    tokenizer = FastTokenizer(write_tokenizer(tmp_path, chat_template=templates))
    assert tokenizer.decode(tokenizer.chat(HELLO)) == "the"


def test_prompts_are_not_cut_as_training_was(tmp_path):
    backend = byte_level()
    backend.enable_truncation(4)
    backend.enable_padding(length=12)
    assert len(FastTokenizer(write_tokenizer(tmp_path, backend)).encode("abcdefgh")) == 8


def test_leading_special_ids_come_once(tmp_path):
    plain = FastTokenizer(write_tokenizer(tmp_path / "a", add_bos_token=True))
    backend = byte_level()
    backend.post_processor = processors.TemplateProcessing(
        single="<|im_start|> $A", special_tokens=[("<|im_start|>", 1)]
    )
    with_processor = FastTokenizer(write_tokenizer(tmp_path / "b", backend, add_bos_token=True))
    assert plain.encode("the")[:1] == with_processor.encode("the")[:1] == (1,)
    assert len(plain.encode("the")) == len(with_processor.encode("the")) == 2


def test_every_id_that_ends_a_text_counts(folder):
    (folder / "generation_config.json").write_text('{"eos_token_id": [0, 2], "temperature": 0.6, "top_k": 20}')
    (folder / "config.json").write_text('{"eos_token_id": 7}')
    tokenizer = FastTokenizer(folder)
    assert tokenizer.eos_ids == (0, 2, 7)
    assert tokenizer.defaults == GenerationDefaults(temperature=0.6, top_k=20)


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("generation_config.json", '{"temperature": "hot"}', "temperature: got 'hot', wanted a number"),
        ("generation_config.json", '{"temperature": true}', "temperature: got True, wanted a number"),
        ("generation_config.json", '{"temperature": NaN}', "temperature: got nan, wanted a number from 0 to 100"),
        ("generation_config.json", '{"top_p": 5}', "top_p: got 5, wanted a number over 0 and up to 1"),
        ("generation_config.json", '{"min_p": -1}', "min_p: got -1, wanted a number from 0 to 1"),
        ("generation_config.json", '{"repetition_penalty": 0}', "repetition_penalty: got 0, wanted"),
        ("generation_config.json", '{"top_k": 2.5}', "top_k: got 2.5, wanted a whole number"),
        (
            "generation_config.json",
            '{"eos_token_id": 99999}',
            "eos_token_id: got 99999, wanted token ids from 0 to 260",
        ),
        ("generation_config.json", '{"eos_token_id": [1, "a"]}', "eos_token_id: got 'a', wanted token ids"),
        ("config.json", '{"eos_token_id": -1}', "eos_token_id: got -1, wanted token ids"),
        ("config.json", '{"eos_token_id": true}', "eos_token_id: got True, wanted token ids"),
    ],
)
def test_what_no_request_could_ask_for_is_refused_where_the_model_is_loaded(folder, name, text, wanted):
    (folder / name).write_text(text)
    with pytest.raises(Corrupted) as caught:
        FastTokenizer(folder)
    assert f"{folder / name}: {wanted}" in caught.value.message


def test_defaults_are_nothing_where_the_makers_say_nothing(folder):
    assert FastTokenizer(folder).defaults == GenerationDefaults()


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("tokenizer.json", "{", "tokenizer.json"),
        ("tokenizer_config.json", "{", "tokenizer_config.json"),
        ("tokenizer_config.json", "[]", "JSON object"),
    ],
)
def test_broken_files_are_named(folder, name, text, wanted):
    (folder / name).write_text(text)
    with pytest.raises(Corrupted, match=wanted):
        FastTokenizer(folder)


def test_a_folder_without_a_tokenizer_is_named(tmp_path):
    with pytest.raises(NotFound, match=r"no tokenizer\.json"):
        FastTokenizer(tmp_path)


def test_the_digest_is_what_is_documented():
    wanted = hashlib.sha256()
    for piece in (b"a", b"", b"bc"):
        wanted.update(struct.pack("<I", len(piece)) + piece)
    wanted.update(b"\xff\xff\xff\xff" + struct.pack("<II", 1, 2))
    assert digest_of([b"a", b"", b"bc"], {2, 1}) == wanted.hexdigest()


def test_digests_tell_what_ids_mean(tmp_path):
    one = FastTokenizer(write_tokenizer(tmp_path / "a"))
    backend = byte_level()
    backend.pre_tokenizer = None
    cuts_otherwise = FastTokenizer(write_tokenizer(tmp_path / "b", backend, chat_template=None))
    assert one.digest == cuts_otherwise.digest
    swapped = json.loads(byte_level().to_str())
    vocabulary = swapped["model"]["vocab"]
    vocabulary["the"], vocabulary["th"] = vocabulary["th"], vocabulary["the"]
    (write_tokenizer(tmp_path / "c") / "tokenizer.json").write_text(json.dumps(swapped))
    assert FastTokenizer(tmp_path / "c").digest != one.digest
    less_special = json.loads(byte_level().to_str())
    less_special["added_tokens"][1]["special"] = False
    (write_tokenizer(tmp_path / "d") / "tokenizer.json").write_text(json.dumps(less_special))
    assert FastTokenizer(tmp_path / "d").digest != one.digest


def test_pieces_of_other_tokenizers_are_their_names(tmp_path):
    tokenizer = FastTokenizer(write_tokenizer(tmp_path, metaspace(), eos_token=None, bos_token=None))
    assert tokenizer.token_bytes(258) == "▁a".encode()
    assert tokenizer.token_bytes(9999) == b""
    assert tokenizer.decode(tokenizer.encode("a bä")) == "a bä"


def test_synthetic_tokenizers(tmp_path):
    tokenizer = load_tokenizer(parse_source("synthetic:vocab=64,eos=0.1"), tmp_path)
    assert (tokenizer.vocabulary_size, tokenizer.eos_ids, tokenizer.special_ids) == (64, (63,), {63})
    assert tokenizer.encode("w3 w62 w63 w64")[:3] == (3, 62, 63)
    assert all(token < 63 for token in tokenizer.encode("any words at all w64 😀"))
    assert tokenizer.decode((3, 63, 5)) == " w3 w5"
    assert tokenizer.token_bytes(5) == b" w5"
    stream = tokenizer.stream()
    assert [stream.push(3), stream.push(63), stream.push(5), stream.finish()] == [" w3", "", " w5", ""]
    assert not tokenizer.has_chat_template
    assert tokenizer.chat([ChatMessage("user", "w1")])[1] == 1
    with pytest.raises(InvalidField, match=r"messages\[0\].role: got 'wizard', wanted one of system"):
        tokenizer.chat([ChatMessage("wizard", "w1")])
    assert tokenizer.digest != SyntheticTokenizer(SyntheticModel(vocabulary=64)).digest


def test_orchestrators_need_no_torch(folder):
    import subprocess
    import sys

    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").touch()
    code = (
        "import sys; from pathlib import Path; from foreword.models.load_tokenizer import load_tokenizer;"
        "from foreword.models.source import parse_source;"
        f"load_tokenizer(parse_source({str(folder)!r}), Path('unused')).digest;"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
