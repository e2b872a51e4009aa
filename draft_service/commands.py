"""The command `foreword serve draft`."""

from __future__ import annotations

from draft_service.service import run
from draft_service.settings import DraftSettings
from foreword.settings.command import serve_command

serve = serve_command(
    DraftSettings,
    run,
    description="Serve a draft: it writes candidate blocks ahead of the target for an orchestrator's sessions.",
)
