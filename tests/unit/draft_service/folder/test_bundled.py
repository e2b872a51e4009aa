"""The draft that is shipped: whole, small enough for the repository, measured, and named with its licence."""

from __future__ import annotations

from pathlib import Path

from draft_service.drafters.vocabulary import VocabularyMap
from draft_service.folder.bundled import BUNDLED, bundled_folder, draft_folder
from draft_service.folder.card import WEIGHTS, read_card
from draft_service.folder.weights import read_weights
from draft_service.training.prompts import HELD_OUT, held_out
from draft_service.training.scripts import read_prompts

ROOT = Path(__file__).resolve().parents[4]
MOST_BYTES = 16 << 20


def test_its_files_are_as_they_were_written_and_small() -> None:
    folder = bundled_folder()
    card = read_card(folder)
    weights, ids = read_weights(folder, card)  # compares the digest
    assert VocabularyMap(ids, card.target.vocabulary_size).digest == card.vocabulary_map_digest
    assert card.target.source == "embedded"
    assert weights
    assert sum(file.stat().st_size for file in folder.iterdir()) <= MOST_BYTES
    assert {file.name for file in folder.iterdir()} == {"draft.json", WEIGHTS}


def test_its_card_says_what_it_is_worth_and_on_which_text() -> None:
    """Both texts are as they are now: where prompts change, its figures are to be measured again."""
    measured = read_card(bundled_folder()).figures.measured
    dev = read_prompts(ROOT / "loadtest/prompts/dev.jsonl")
    assert {one.text.prompts: one.text.prompts_digest for one in measured} == {
        HELD_OUT: held_out().digest,
        "dev.jsonl": dev.digest,
    }
    for one in measured:
        assert 0.5 < one.overlap < 0.6
        assert one.model_dump()["positions"] > 20_000
    assert read_card(bundled_folder()).fitted_scales == ((0.7, 0.9), (1.0, 0.9))


def test_settings_name_it() -> None:
    assert draft_folder(BUNDLED) == bundled_folder()


def test_it_is_named_with_its_licence() -> None:
    assert "draft_service/bundled" in (ROOT / "NOTICE").read_text("utf-8")
