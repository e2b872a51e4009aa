"""Figures beside those of a card: which are compared, what counts as the same, and what the card keeps."""

from __future__ import annotations

from typing import Any

import pytest

from draft_service.folder.card import DraftCard, Figures, Measured, MeasuredText, TargetCard
from draft_service.training.comparing import Comparison, with_figures
from draft_service.training.prompts import HELD_OUT

TEXT = {"prompts": HELD_OUT, "prompts_digest": "a" * 64, "tokens": 1000, "dtype": "bfloat16"}


def measured(overlap: float = 0.5, at_one: float = 0.4, **text: Any) -> Measured:
    part = {"agreement": 0.5, "positions": 10}
    return Measured.model_validate(
        {
            "text": MeasuredText.model_validate({**TEXT, **text}),
            "overlap": overlap,
            "agreement": 0.5,
            "covered": 0.9,
            "cost_ratio": 0.1,
            "expected": {"gamma": 2, "speedup": 1.5},
            "temperature_scales": {"1": 0.9 if text else 1.1},
            "by": {"temperature 1": {"served": at_one, **part}, "chat": {"served": 0.1, **part}},
        }
    )


def card(*figures: Measured, **recipe: Any) -> DraftCard:
    digest = "b" * 64
    target = TargetCard(
        source="embedded", weights_digest=digest, embedding_digest=digest, tokenizer_digest="t", vocabulary_size=9
    )
    return DraftCard(
        name="d",
        target=target,
        layers=(0,),
        head=4,
        vocabulary_map_digest=digest,
        weights_digest=digest,
        recipe=recipe,
        figures=Figures(measured=figures),
    )


@pytest.mark.parametrize(
    ("before", "differing"),
    [
        (measured(), []),
        (measured(0.51, 0.39), []),
        (measured(0.512), ["overlap"]),
        (measured(0.5, 0.38), ["temperature 1"]),
        (measured(0.9, prompts="renamed.jsonl"), ["overlap"]),
        (measured(prompts_digest="c" * 64), None),
        (measured(tokens=1001), None),
        (measured(dtype="float32"), None),
    ],
)
def test_figures_of_the_same_text_are_compared_within_a_hundredth(before: Measured, differing: list[str]) -> None:
    found = Comparison(card(before), measured())
    assert found.differing == differing
    assert found.json()["written"] == (None if differing is None else before.model_dump())
    said = found.shown().splitlines()[-1]
    if differing is None:
        assert said.startswith(
            "draft.json has no figures of this text, but of prompts held out from training, some 1,0"
        )
    elif differing:
        assert said.startswith(f"Not as draft.json has it for this text: {differing[0]} 0.")
    else:
        assert said == "As draft.json has it for this text, within 0.01."


def test_a_card_without_texts_is_compared_with_nothing() -> None:
    """As cards were written before figures said what they are of."""
    old = card().model_copy(update={"figures": Figures.model_validate({"overlap": 0.5, "by": {}})})
    assert Comparison(old, measured()).differing is None
    assert Comparison(old, measured()).shown().endswith("draft.json has no figures of this text.")
    assert with_figures(old, measured()).figures.model_extra == {}


def test_a_card_keeps_figures_of_every_text_once_and_the_scales_of_the_last() -> None:
    both = with_figures(with_figures(card(), measured()), measured(0.3, prompts_digest="c" * 64))
    assert [one.overlap for one in both.figures.measured] == [0.5, 0.3]
    assert both.figures.temperature_scales == {"1": 0.9}
    again = with_figures(both, measured(0.6))
    assert [one.overlap for one in again.figures.measured] == [0.3, 0.6]
    assert again.figures.temperature_scales == {"1": 1.1}
    assert DraftCard.model_validate_json(again.model_dump_json()) == again


@pytest.mark.parametrize(
    ("recipe", "asked"), [({}, False), ({"prompts_digests": ["a" * 64]}, True), ({"prompts_digests": 7}, False)]
)
def test_prompts_that_training_asked_are_called_so(recipe: dict[str, Any], asked: bool) -> None:
    found = Comparison(card(**recipe), measured())
    assert found.asked_in_training == asked
    assert ("This is no test" in found.shown()) == asked
