"""Settings of a target."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic_settings import SettingsConfigDict

from foreword.errors import InvalidField
from foreword.models.device_name import DEVICES, check_device_name
from foreword.models.dtype import EXACT, Dtype, check_exact
from foreword.models.local import check_there
from foreword.models.source import check_words, is_synthetic
from foreword.settings.base import ServerSettings, start_timeout
from foreword.settings.checks import check_all
from foreword.settings.fields import setting
from target_service.core.policy import StepPolicyName

_RAY_ADDRESS = re.compile(r"auto|\S+:\d{1,5}")
_RAY_WANTED = "host:port, or auto"


class TargetSettings(ServerSettings):
    """Settings of `foreword serve target`."""

    model_config = SettingsConfigDict(env_prefix="FOREWORD_TARGET_")

    model: str = setting(
        "embedded", "Model to serve: embedded, a folder, a .gguf file, a hub id, or synthetic:vocab=64,step_ms=20,…"
    )
    name: str = setting("", "Name that requests call the model by; empty takes it from the source.")
    dtype: Dtype = setting(Dtype.FLOAT32, "Arithmetic of the forward pass.", wanted=EXACT)
    device: str = setting("auto", "Where the model runs; auto takes a GPU if there is one.", wanted=DEVICES)
    deterministic: bool = setting(
        False,
        "Whether logits are a function of the context alone, to the last bit, whatever else is in a step; slower.",
    )
    cache: Path | None = setting(None, "Folder for fetched and converted models; none takes the user's cache folder.")
    start_timeout_s: float = start_timeout()
    tensor_parallel_size: int = setting(
        1,
        "Ranks that share every layer of the model, each a Ray actor; 1 needs no Ray.",
        unit="ranks",
        least=1,
        most=64,
    )
    ray_address: str = setting(
        "", "Ray cluster that the ranks run on; empty starts one on this machine.", wanted=_RAY_WANTED
    )
    max_sessions: int = setting(
        256, "Most sessions with room in the cache; more wait in line.", unit="sessions", least=1
    )
    max_waiting: int = setting(
        64,
        "Most sessions that wait in line for room; more are refused, with a time to ask again.",
        unit="sessions",
        least=0,
    )
    max_tokens: int | None = setting(
        None,
        "Most tokens that the cache is made for; none takes what fits into memory_share.",
        unit="tokens",
        least=1,
    )
    memory_share: float = setting(
        0.4, "Share of the device's memory that is free at start which the cache may take.", over=0, most=0.95
    )
    page_size: int = setting(
        16,
        "Tokens of a page of the cache; on CPUs a multiple of 16, or attention is slower, as the log says.",
        unit="tokens",
        least=1,
        most=1024,
    )
    max_step_tokens: int = setting(
        2048,
        "Most tokens of one step: sessions that decode go first, an eighth is kept for prompts while any wait.",
        unit="tokens",
        least=1,
    )
    prefill_chunk: int = setting(256, "Most prompt tokens read in one step.", unit="tokens", least=1)
    step_budget_ms: float | None = setting(
        200.0,
        "Time that a step may take by reading prompts while sessions decode, or twice what it takes without if that is "
        "longer; none for as long as a chunk takes.",
        unit="ms",
        over=0,
        most=60_000,
    )
    step_policy: StepPolicyName = setting(
        StepPolicyName.WORTHWHILE,
        "When a step starts: as soon as it can, with everybody, or when waiting does not pay.",
    )
    local_drafter: str = setting(
        "lookup",
        "What the target drafts with itself while a session has no draft: prompt lookup, another model, or nothing.",
        wanted="lookup, none, or a model source",
    )
    gamma_max: int = setting(
        32, "Longest block that is verified; of a longer one the beginning.", unit="candidates", least=1, most=256
    )

    def check_files(self) -> None:
        """Raise what the server's files raise, and NotFound or Mismatch for a path without a model."""
        drafter = self.local_drafter
        check_all(
            super().check_files,
            lambda: check_there(self.model),
            lambda: None if drafter in ("lookup", "none") else check_there(drafter, field="local_drafter"),
        )

    def model_post_init(self, _: object) -> None:
        check_words(self.model)
        check_device_name(self.device)
        if self.ray_address and not _RAY_ADDRESS.fullmatch(self.ray_address):
            raise InvalidField("ray_address", self.ray_address, _RAY_WANTED)
        if self.local_drafter not in ("lookup", "none"):
            check_words(self.local_drafter, field="local_drafter")
        check_exact(self.dtype)
        if self.max_tokens is not None and self.max_tokens <= self.page_size and not is_synthetic(self.model):
            wanted = f"more than page_size, {self.page_size}: two texts are scored when a model is loaded"
            raise InvalidField("max_tokens", self.max_tokens, wanted)
        if self.max_step_tokens <= self.gamma_max:
            wanted = f"more than gamma_max, {self.gamma_max}"
            raise InvalidField("max_step_tokens", self.max_step_tokens, wanted)
