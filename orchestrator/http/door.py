"""What all endpoints know."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from foreword.laws.parameters import LawParameters
from foreword.protocol.info import ModelInfo
from orchestrator.front.front import Front
from orchestrator.front.intake import Intake
from orchestrator.http.settings import HttpSettings


@dataclass(frozen=True, slots=True)
class Door:
    """The front behind the endpoints, and how they are set."""

    front: Front
    settings: HttpSettings
    registry: CollectorRegistry
    now_s: Callable[[], int]
    """Seconds since 1970."""
    since_s: int
    """When this process began, in such seconds."""
    new_id: Callable[[], str]

    def names(self, model: ModelInfo) -> tuple[str, ...]:
        """Return the names that the model goes by, the one that is listed first in front."""
        return tuple(dict.fromkeys((*self.settings.served_model_names, model.name)))

    def defaults(self, intake: Intake) -> LawParameters:
        """Return how tokens are chosen where a request is silent."""
        return intake.text.defaults if self.settings.generation_config else LawParameters()


def fingerprint(model: ModelInfo) -> str:
    """Return what is equal for two servers of the same weights, in the same arithmetic."""
    digest = hashlib.sha256("\n".join((model.weights_digest, model.tokenizer_digest, model.dtype)).encode())
    return f"fp_{digest.hexdigest()[:10]}"
