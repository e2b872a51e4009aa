"""Who a peer is and what it runs: identities, costs, and the greetings of long-lived streams, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass

from foreword.protocol.words import Drafter


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Which model a service runs."""

    name: str
    source: str
    weights_digest: str
    tokenizer_digest: str
    vocabulary_size: int
    longest_context: int
    dtype: str
    eos_ids: tuple[int, ...] = ()
    chat_template: bool = False
    """Whether it came with a template for conversations; synthetic models have none."""
    made_for: str = ""
    """Digest of the weights of the target that a distilled draft was made for; empty for any other model."""


@dataclass(frozen=True, slots=True)
class CostPoint:
    """One measured point of a step-time curve."""

    rows: int
    context: int
    step_us: int


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What a service is and how it runs."""

    model: ModelInfo | None
    instance: str
    address: str
    version: str
    protocol_min: int
    protocol_max: int
    tensor_parallel_size: int = 1
    cost_curve: tuple[CostPoint, ...] = ()
    drafter: Drafter | None = None
    sessions: int = 0
    name: str = ""
    """What requests call a draft that has no model."""
    local_drafter: Drafter | None = None
    """What a target drafts with itself where a Commit asks for that."""
    gamma_max: int | None = None
    """Longest block that a target verifies; None where it does not say."""

    @property
    def called(self) -> str:
        """What requests call the service: its model's name, or else its own; empty if it has none."""
        return self.model.name if self.model is not None else self.name


@dataclass(frozen=True, slots=True)
class DraftInfo:
    """What a draft service is."""

    server: ServerInfo
    gamma_max: int
    vocabulary_map_digest: str = ""


@dataclass(frozen=True, slots=True)
class Hello:
    """First message in each direction of every long-lived stream."""

    protocol_min: int
    protocol_max: int
    instance: str
    liveness_ms: int = 1000


@dataclass(frozen=True, slots=True)
class Liveness:
    """Rides on every stream; three that do not come end it. The echo measures the round trip."""

    sequence: int
    echo_sequence: int | None = None
    echo_held_us: int = 0
