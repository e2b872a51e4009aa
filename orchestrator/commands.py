"""`foreword serve orchestrator`."""

from __future__ import annotations

from foreword.settings.command import serve_command
from orchestrator.service import run
from orchestrator.settings import OrchestratorSettings

serve = serve_command(
    OrchestratorSettings, run, description="Serve the public API: sessions on targets, drafts ahead of them."
)
