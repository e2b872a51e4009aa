"""Acceptance rules: the target computes evidence, the orchestrator decides. Pure, and exact."""

from __future__ import annotations

from foreword.acceptance.evidence import Evidence, Verdict
from foreword.acceptance.rules import auto, decide, gather, plain

__all__ = ["Evidence", "Verdict", "auto", "decide", "gather", "plain"]
