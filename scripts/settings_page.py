"""Writes docs/settings.md from the settings types of the three services: `python -m scripts.settings_page`."""

from __future__ import annotations

from pathlib import Path

from draft_service.settings import DraftSettings
from foreword.settings.reference import render_reference
from orchestrator.settings import OrchestratorSettings
from target_service.settings import TargetSettings

PAGE = Path(__file__).resolve().parent.parent / "docs" / "settings.md"


def page() -> str:
    """Return the page as it should be."""
    return render_reference(
        {
            "foreword serve target": TargetSettings,
            "foreword serve draft": DraftSettings,
            "foreword serve orchestrator": OrchestratorSettings,
        }
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
