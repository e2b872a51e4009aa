"""Figures of a draft beside those that its card keeps: for people and for programs, and into the card."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

from draft_service.folder.card import DraftCard, Figures, Measured
from draft_service.training.prompts import HELD_OUT

WITHIN = 0.01
"""What a share may differ by on the same text: rounding tips near-ties, and answers may go on otherwise from there."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A card as it was before, and what has been measured now."""

    card: DraftCard
    measured: Measured

    @property
    def written(self) -> Measured | None:
        """Figures of the same text that the card keeps."""
        return next((one for one in self.card.figures.measured if one.text.is_same_as(self.measured.text)), None)

    @property
    def differing(self) -> list[str] | None:
        """Shares over all and by temperature that are not what was written; None where nothing was."""
        if self.written is None:
            return None
        before, now = _shares(self.written), _shares(self.measured)
        names = {**before, **now}
        return [name for name in names if not abs(before.get(name, inf) - now.get(name, inf)) <= WITHIN + 1e-9]

    @property
    def asked_in_training(self) -> bool:
        """Whether the draft was trained on answers to the same prompts, as far as its recipe says."""
        digests = self.card.recipe.get("prompts_digests")
        return isinstance(digests, list) and self.measured.text.prompts_digest in digests

    def json(self) -> dict[str, Any]:
        """Return what programs read."""
        return {
            "written": None if self.written is None else self.written.model_dump(),
            "measured": self.measured.model_dump(),
            "differing": self.differing,
            "asked_in_training": self.asked_in_training,
        }

    def shown(self) -> str:
        """Return what people read."""
        figures = self.measured.model_dump()
        best = figures["expected"]
        lines = [
            f"measured on answers to                {_named(self.measured)}",
            f"overlap Σ min(p, q) at temperature 1  {figures['overlap']:.3f}",
            f"agreement at temperature 0            {figures['agreement']:.3f}",
            f"mass that the head covers             {figures['covered']:.3f}",
            f"cost of a step, in target steps       {figures['cost_ratio']:.3f}",
            f"expected speed-up                     {best['speedup']:.2f} at γ {best['gamma']}",
        ]
        for name, one in figures["by"].items():
            lines.append(
                f"  {name:<16} served {one['served']:.3f}  agreement {one['agreement']:.3f}  {one['positions']:,}"
            )
        return "\n".join([*lines, *self._remarks()])

    def _remarks(self) -> list[str]:
        remarks = []
        if self.asked_in_training:
            remarks.append("This is no test: the draft was trained on answers to these prompts.")
        if self.written is None:
            others = "; ".join(f"{_named(one)}: {one.overlap:.3f}" for one in self.card.figures.measured)
            remarks.append(f"draft.json has no figures of this text{others and ', but of '}{others}.")
        elif not self.differing:
            remarks.append(f"As draft.json has it for this text, within {WITHIN}.")
        else:
            before = _shares(self.written)
            was = ", ".join(f"{name} {before[name]:.3f}" if name in before else name for name in self.differing)
            remarks.append(f"Not as draft.json has it for this text: {was}.")
        return remarks


def with_figures(card: DraftCard, measured: Measured) -> DraftCard:
    """Return the card with these figures, in the place of older ones of the same text, and with their scales."""
    others = tuple(one for one in card.figures.measured if not one.text.is_same_as(measured.text))
    figures = Figures(temperature_scales=measured.temperature_scales, measured=(*others, measured))
    return card.model_copy(update={"figures": figures})


def _named(one: Measured) -> str:
    text = one.text
    prompts = "prompts held out from training" if text.prompts == HELD_OUT else f"the prompts of {text.prompts}"
    return f"{prompts}, some {text.tokens:,} tokens in {text.dtype}"


def _shares(one: Measured) -> dict[str, float]:
    served = {name: part.served for name, part in one.by.items() if name.startswith("temperature ")}
    return {"overlap": one.overlap, "agreement": one.agreement, **served}
