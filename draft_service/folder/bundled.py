"""The draft that comes with the package: of SmolLM2-135M-Instruct, which is the target where none is named."""

from __future__ import annotations

from pathlib import Path

from draft_service.folder.card import is_draft

BUNDLED = "bundled"
"""What settings call it."""


def bundled_folder() -> Path:
    """Return the folder of the bundled draft."""
    return Path(__file__).parent.parent / "bundled"


def draft_folder(model: str) -> Path | None:
    """Return the folder of a distilled draft if that is what a setting names."""
    if model == BUNDLED:
        return bundled_folder()
    folder = Path(model).expanduser()
    return folder if model and is_draft(folder) else None
