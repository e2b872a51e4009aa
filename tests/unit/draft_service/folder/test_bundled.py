"""The draft that is shipped: whole, small enough for the repository, measured, and named with its licence."""

from __future__ import annotations

from pathlib import Path

from draft_service.drafters.vocabulary import VocabularyMap
from draft_service.folder.bundled import BUNDLED, bundled_folder, draft_folder
from draft_service.folder.card import WEIGHTS, read_card
from draft_service.folder.weights import read_weights

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


def test_its_card_says_what_it_is_worth() -> None:
    figures = read_card(bundled_folder()).figures.model_dump()
    assert 0.0 < figures["overlap"] < 1.0
    assert figures["positions"] > 1000
    assert read_card(bundled_folder()).fitted_scales == ((0.7, 0.9), (1.0, 1.0))


def test_settings_name_it() -> None:
    assert draft_folder(BUNDLED) == bundled_folder()


def test_it_is_named_with_its_licence() -> None:
    assert "draft_service/bundled" in (ROOT / "NOTICE").read_text("utf-8")
