"""`foreword serve target`."""

from __future__ import annotations

from foreword.settings.command import serve_command
from target_service.service import run
from target_service.settings import TargetSettings

serve = serve_command(TargetSettings, run, description="Serve a target model: verify blocks, or decode plainly.")
