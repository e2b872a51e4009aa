"""docs/settings.md says what the settings types say."""

from __future__ import annotations

from scripts.settings_page import PAGE, page


def test_the_page_is_what_the_types_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m scripts.settings_page"
