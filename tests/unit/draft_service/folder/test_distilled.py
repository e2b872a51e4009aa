"""A draft from its first sampled token to the drafter that serves it, on a tiny target; and all that is refused."""

from __future__ import annotations

import json
import logging
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import structlog
from safetensors import safe_open
from safetensors.numpy import save_file
from structlog.testing import capture_logs

from draft_service.drafters.build import DrafterConfig, build_drafter
from draft_service.drafters.vocabulary import VocabularyMap
from draft_service.folder.bundled import draft_folder
from draft_service.folder.card import CARD, WEIGHTS, read_card
from draft_service.folder.load import load_draft
from draft_service.training.corpus import Corpus
from foreword.cli.app import run
from foreword.errors import Corrupted, ForewordError, InvalidField, Mismatch, NotFound
from foreword.laws.law import Law
from foreword.laws.parameters import LawParameters
from foreword.models.checksum import sha256_of
from foreword.protocol.words import Drafter
from foreword.runner.budget import CacheBudget
from tests.unit.draft_service.folder.tiny_target import ROWS, write_target


@pytest.fixture(autouse=True, scope="module")
def logs_as_they_were() -> Iterator[None]:
    """Leave no handler on a stream that is closed when this file is done."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a target, a corpus of it and a draft that the commands made."""
    root = tmp_path_factory.mktemp("distilled")
    prompts = root / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": f"Say {i}."}) + "\n" for i in range(7)))
    target = ["--target", str(write_target(root / "target")), "--threads", "1"]
    sampled = ["distill", "sample", str(root / "corpus"), "--tokens", "3000", "--shard", "8", *target]
    assert run([*sampled, "--prompts", str(prompts)]) == 0
    trained = ["distill", "train", str(root / "draft"), "--corpus", str(root / "corpus"), "--layers", "0,2"]
    assert run([*trained, "--head", "200", "--epochs", "2", "--batch", "2048", "--name", "tiny", *target]) == 0
    measured = ["distill", "eval", str(root / "draft"), "--tokens", "1000", "--threads", "1", "--write"]
    assert run(measured) == 0
    assert run([*measured, "--prompts", str(prompts), "--corpus", str(root / "held")]) == 0
    return root


def load(root: Path, **more: Any) -> Any:
    return load_draft(root / "draft", cache=root / "cache", threads=1, **more)


def test_card_says_what_it_is_and_eval_finds_the_same_again(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    card = read_card(made / "draft")
    assert (card.name, card.layers, card.head) == ("tiny", (0, 2), 200)
    assert card.recipe["tokens"] == Corpus(made / "corpus").tokens()
    assert [(one.text.prompts, one.text.tokens) for one in card.figures.measured] == [
        ("held out", 1000),
        ("prompts.jsonl", 1000),
    ]
    assert card.figures.temperature_scales == card.figures.measured[1].temperature_scales
    asked = ["distill", "eval", str(made / "draft"), "--tokens", "1000", "--json", "--threads", "1"]
    assert run([*asked, "--corpus", str(made / "held")]) == 2
    assert "prompts" in capsys.readouterr().err, "a corpus of other prompts is not measured on"
    for number, of in enumerate([[], ["--prompts", str(made / "prompts.jsonl"), "--corpus", str(made / "held")]]):
        assert run([*asked, *of]) == 0
        report = json.loads(capsys.readouterr().out)
        for name in ("overlap", "agreement", "covered", "positions", "text"):
            assert report["measured"][name] == report["written"][name]
        assert report["written"] == card.figures.measured[number].model_dump()
        assert report["differing"] == []
        assert report["asked_in_training"] == bool(of)
        assert 0 < report["measured"]["overlap"] <= report["measured"]["covered"] <= 1


def test_eval_says_what_it_measured_on(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Text that is not the written one is not compared, and text that training asked for is called that."""
    asked = ["distill", "eval", str(made / "draft"), "--tokens", "300", "--threads", "1"]
    assert run(asked) == 0
    said = capsys.readouterr().out
    assert "measured on answers to                prompts held out from training, some 300 tokens in bfloat16\n" in said
    assert (
        "draft.json has no figures of this text, but of prompts held out from training, some 1,000 tokens in " in said
    )
    assert run([*asked, "--prompts", str(made / "prompts.jsonl")]) == 0
    said = capsys.readouterr().out
    assert "the prompts of prompts.jsonl, some 300 tokens" in said
    assert "This is no test: the draft was trained on answers to these prompts." in said


def test_a_corpus_whose_file_of_prompts_has_changed_is_not_gone_on_with(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "Say one."}\n')
    asked = ["distill", "sample", str(tmp_path / "corpus"), "--tokens", "100", "--shard", "3", "--threads", "1"]
    asked += ["--target", str(made / "target"), "--prompts", str(prompts)]
    assert run(asked) == 0
    prompts.write_text('{"prompt": "Say two."}\n')
    assert run([*asked, "--tokens", "200"]) == 2
    assert "prompts_digest" in capsys.readouterr().err
    begun = json.loads((tmp_path / "corpus" / "corpus.json").read_text())
    del begun["prompts_digest"]
    (tmp_path / "corpus" / "corpus.json").write_text(json.dumps(begun))
    assert run([*asked, "--tokens", "200"]) == 0, "of before digests were kept"


def test_loaded_draft_says_whom_it_was_made_for_and_computes_what_was_trained(made: Path) -> None:
    loaded = load(made)
    assert loaded.info.name == "tiny"
    assert loaded.info.made_for == loaded.card.target.weights_digest
    assert loaded.module.get_output_embeddings().weight.shape[0] == 200
    built = build_drafter(
        DrafterConfig(Drafter.MODEL, made / "cache", str(made / "draft"), threads=1, budget=CacheBudget(1024))
    )
    assert built.abilities.vocabulary_map_digest == loaded.vocabulary.digest
    assert built.abilities.vocabulary_size == loaded.info.vocabulary_size <= ROWS


def rewritten(draft: Path, change: Callable[[dict[str, Any]], None]) -> None:
    card = json.loads((draft / CARD).read_text())
    change(card)
    (draft / CARD).write_text(json.dumps(card))


def scaled(scales: Any) -> Callable[[dict[str, Any]], None]:
    """Return what puts other fitted scales into a card."""
    return lambda card: card["figures"].update(temperature_scales=scales)


def cut(draft: Path) -> None:
    file = draft / WEIGHTS
    file.write_bytes(file.read_bytes()[:-100])


def flipped(draft: Path) -> None:
    file = draft / WEIGHTS
    content = bytearray(file.read_bytes())
    content[-5] ^= 1
    file.write_bytes(content)


def other_map(draft: Path) -> None:
    """Another id in the map, and a card whose digest of the file is right again."""
    with safe_open(draft / WEIGHTS, framework="numpy") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    ids = tensors["vocabulary.ids"]
    free = next(i for i in range(ROWS) if i not in set(ids.tolist()))
    tensors["vocabulary.ids"] = np.sort(np.append(ids[1:], free).astype(np.int32))
    save_file(tensors, draft / WEIGHTS)
    rewritten(draft, lambda card: card.update(weights_digest=sha256_of(draft / WEIGHTS)))


@pytest.mark.parametrize(
    ("spoil", "error", "words"),
    [
        (cut, Corrupted, "the file was cut short or changed"),
        (flipped, Corrupted, "wanted sha256"),
        (other_map, Mismatch, "vocabulary map of 200 ids with digest"),
        (lambda draft: (draft / WEIGHTS).unlink(), Corrupted, f"no {WEIGHTS}"),
        (lambda draft: (draft / CARD).write_text("{"), Corrupted, "Invalid JSON"),
        (lambda draft: rewritten(draft, lambda card: card.pop("head")), Corrupted, "head: Field required"),
        (lambda draft: rewritten(draft, lambda card: card.update(layers=[0])), Mismatch, "too many"),
        (lambda draft: (draft / CARD).unlink(), NotFound, f"no {CARD}"),
        (lambda draft: rewritten(draft, lambda card: card.update(layer_types=["full_attention"])), Corrupted, "got 1"),
        (lambda draft: rewritten(draft, lambda card: card.update(layers=[0, -1])), Corrupted, "layers.1: "),
        *(
            (lambda draft, scales=scales: rewritten(draft, scaled(scales)), Corrupted, words)
            for scales, words in (
                ({"abc": 1.0}, r"figures\.temperature_scales\.abc\.\[key\]: String should match"),
                ([1, 2], r"figures\.temperature_scales: Input should be an object"),
                (None, r"figures\.temperature_scales: Input should be an object"),
                ({"1": "x"}, r"figures\.temperature_scales\.1: Input should be a valid number"),
                ({"1": 0.0}, r"figures\.temperature_scales\.1: Input should be greater than 0"),
                ({"1": -1.0}, r"figures\.temperature_scales\.1: Input should be greater than 0"),
                ({"1": float("nan")}, r"figures\.temperature_scales\.1: Input should be a finite number"),
                ({"1": 1000}, r"figures\.temperature_scales\.1: Input should be less than or equal to 10"),
            )
        ),
    ],
)
def test_a_draft_that_is_not_as_it_was_made_is_refused(
    made: Path, tmp_path: Path, spoil: Callable[[Path], None], error: type[ForewordError], words: str
) -> None:
    shutil.copytree(made / "draft", tmp_path / "draft")
    spoil(tmp_path / "draft")
    with pytest.raises(error, match=words):
        load_draft(tmp_path / "draft", cache=made / "cache", threads=1)


def test_a_draft_for_another_target_is_refused(made: Path, tmp_path: Path) -> None:
    other = write_target(tmp_path / "other", seed=5)
    with pytest.raises(Mismatch, match="made for a target whose embedding has digest"):
        load(made, target=str(other))


def test_a_draft_of_the_same_target_under_another_digest_serves_and_says_so(made: Path, tmp_path: Path) -> None:
    """Digests of before did not count the config; what it tells others is the digest of today."""
    shutil.copytree(made / "draft", tmp_path / "draft")
    rewritten(tmp_path / "draft", lambda card: card["target"].update(weights_digest="0" * 64))
    with capture_logs() as logs:
        loaded = load_draft(tmp_path / "draft", cache=made / "cache", threads=1)
    today = read_card(made / "draft").target.weights_digest
    assert loaded.info.made_for == today
    assert [(line["made_with"], line["loaded"]) for line in logs if "made_with" in line] == [("0" * 64, today)]


def test_sampling_into_a_corpus_of_another_kind_is_refused(made: Path) -> None:
    with pytest.raises(InvalidField, match=r"with which .* was begun"):
        Corpus(made / "corpus").claim({"seed": 77})


@pytest.mark.parametrize(("text", "words"), [("", "wanted JSON"), ('{"seed"', "wanted JSON"), ("[]", "JSON object")])
def test_a_corpus_that_does_not_say_how_it_is_made_is_refused(tmp_path: Path, text: str, words: str) -> None:
    corpus = Corpus(tmp_path)
    corpus.claim({"seed": 3})
    corpus.claim({"seed": 3})
    assert [path.name for path in tmp_path.iterdir()] == ["corpus.json"]
    (tmp_path / "corpus.json").write_text(text)
    with pytest.raises(Corrupted, match=rf"corpus\.json: .*{words}"):
        corpus.claim({"seed": 3})


def test_a_corpus_says_all_of_how_it_is_made_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed while it writes leaves a part of a file, here under another name."""

    def killed(path: Path, text: str, *_: Any) -> int:
        with path.open("w") as file:
            file.write(text[:5])
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", killed)
        with pytest.raises(KeyboardInterrupt):
            Corpus(tmp_path).claim({"seed": 3})
    Corpus(tmp_path).claim({"seed": 3})
    assert json.loads((tmp_path / "corpus.json").read_text()) == {"seed": 3}


def test_training_goes_on_from_no_checkpoint_of_other_layers(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(made / "draft", tmp_path / "draft")
    asked = ["distill", "train", str(tmp_path / "draft"), "--corpus", str(made / "corpus"), "--threads", "1"]
    asked += ["--target", str(made / "target"), "--head", "200", "--epochs", "2", "--batch", "2048", "--name", "tiny"]
    before = (made / "draft" / CARD).read_bytes()
    assert run([*asked, "--layers", "0,1"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "of a run with layers [0, 2]" in said
    assert "wanted one with layers [0, 1], or none" in said
    assert (tmp_path / "draft" / CARD).read_bytes() == before


def test_layers_that_the_target_lacks_are_said_before_a_folder_is_made(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["distill", "train", str(tmp_path / "draft"), "--corpus", str(made / "corpus"), "--layers", "0,99"]
    assert run([*asked, "--target", str(made / "target")]) == 2
    assert "--layers: got '0,99', wanted numbers from 0 to " in capsys.readouterr().err
    assert not (tmp_path / "draft").exists()


@pytest.mark.parametrize("command", ["sample", "eval"])
def test_a_target_with_rounded_weights_is_refused(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    at = {"sample": tmp_path / "corpus", "eval": made / "draft"}[command]
    assert run(["distill", command, str(at), "--target", str(made / "target"), "--dtype", "int8"]) == 2
    assert "--dtype: got 'int8', wanted one of float32, bfloat16, float16:" in capsys.readouterr().err
    assert not (tmp_path / "corpus").exists()


def test_an_export_says_what_it_wrote_for_everybody_and_nothing_else(
    made: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    asked = ["distill", "export", str(made / "draft"), str(tmp_path / "model")]
    assert run(asked) == 0
    assert re.fullmatch(rf"{tmp_path / 'model'}: \d+ files, \d+\.\d MB\n", capfd.readouterr().err)
    modes = {file.stat().st_mode & 0o777 for file in (tmp_path / "model").iterdir()}
    assert len(modes) == 1, "weights have the mode of the files beside them"
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "model").iterdir()}
    assert run(asked) == 2
    assert "wanted a folder that is empty or not there yet" in capfd.readouterr().err
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "model").iterdir()} == before


def test_what_the_commands_write_is_for_everybody(made: Path) -> None:
    plain = (made / "prompts.jsonl").stat().st_mode
    written = [*made.glob("corpus/*.safetensors"), *made.glob("draft/*.safetensors")]
    assert {file.name for file in written} >= {WEIGHTS, "checkpoint.safetensors"}
    assert {file.stat().st_mode for file in written} == {plain}


def test_a_folder_is_a_draft_by_its_card(made: Path) -> None:
    assert draft_folder(str(made / "draft")) == made / "draft"
    assert draft_folder(str(made / "target")) is None
    assert draft_folder("embedded") is None


def test_map_turns_columns_into_ids_and_back() -> None:
    vocabulary = VocabularyMap(np.array([2, 5, 9], np.int32), 12)
    law = vocabulary.law_of(Law(None, np.array([0.2, 0.5, 0.3])))
    assert [law.probability_of(token) for token in (2, 5, 9, 3)] == [0.2, 0.5, 0.3, 0.0]
    assert vocabulary.law_of(Law.one_hot(1)).best == 5
    mapped = vocabulary.parameters_of(
        LawParameters(temperature=1.0, bias=((5, 1.5), (6, 2.0)), banned_ids=(2, 3), stop_ids=(9,))
    )
    assert (mapped.bias, mapped.banned_ids, mapped.stop_ids) == (((1, 1.5),), (0,), (2,))
    assert vocabulary.columns_of((9, 4, 2)) == (2, 0)
    assert vocabulary.digest != VocabularyMap(np.array([2, 5, 9], np.int32), 13).digest
    with pytest.raises(Corrupted, match="ids that do not ascend"):
        VocabularyMap(np.array([2, 2], np.int32), 12)
    with pytest.raises(Corrupted, match="ids that do not ascend"):
        VocabularyMap(np.array([2, 12], np.int32), 12)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("sample", "{file}"), "corpus: got '{file}', wanted a folder that can be written (File exists)"),
        (("sample", "{none}", "--device", "foo"), "--device: got 'foo', wanted auto, cpu, cuda or cuda:N"),
        (("sample", "{none}", "--prompts", "{none}"), "--prompts: got '{none}', wanted a file that can be read"),
        (("train", "{none}", "--corpus", "{none}"), "--corpus: got '{none}', wanted a folder of sampled text"),
        (("eval", "bundled", "--corpus", "{file}"), "--corpus: got '{file}', wanted a folder that can be written"),
        (("eval", "{none}"), "draft: got '{none}', wanted a folder that foreword distill made"),
        (("export", "{none}", "out"), "draft: got '{none}', wanted a folder that foreword distill made"),
        (("export", "bundled", "{file}"), "out: got '{file}', wanted a folder that can be written"),
    ],
)
def test_wrong_paths_are_said_before_anything_is_loaded_and_make_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str
) -> None:
    places = {"file": str(tmp_path / "file"), "none": str(tmp_path / "none")}
    (tmp_path / "file").write_text("")
    assert run(["distill", *(word.format(**places) for word in words)]) == 2
    assert capsys.readouterr().err.startswith(says.format(**places))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
