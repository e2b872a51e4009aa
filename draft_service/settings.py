"""Settings of the draft service."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator
from pydantic_settings import SettingsConfigDict

from draft_service.drafters.build import DrafterConfig
from draft_service.drafters.choosing import MatchDraw, Style
from draft_service.drafters.lookup import LookupStyle
from draft_service.engine.admission import Room
from draft_service.engine.engine import Policy
from draft_service.engine.run import EngineConfig
from draft_service.folder.bundled import BUNDLED
from foreword.errors import InvalidField
from foreword.laws.counts import MAX_BITS
from foreword.models.device_name import DEVICES, check_device_name
from foreword.models.dtype import Dtype
from foreword.models.local import check_there
from foreword.models.source import check_words, is_synthetic
from foreword.protocol.words import Drafter
from foreword.runner.budget import PAGE_SIZE, CacheBudget
from foreword.settings.base import ServerSettings, start_timeout
from foreword.settings.checks import check_all
from foreword.settings.environment import cache_folder
from foreword.settings.fields import setting
from foreword.wire.limits import longest_block


class DrafterChoice(Enum):
    """What drafts."""

    MODEL = "model"
    LOOKUP = "lookup"
    MIXED = "mixed"
    SYNTHETIC = "synthetic"


class DraftAhead(Enum):
    """Whether blocks are prepared for outcomes while the block before them is verified."""

    AUTO = "auto"
    """Where the model runs on a GPU, whose idle time costs nobody anything."""
    ON = "on"
    OFF = "off"


def _of_switch(value: object) -> object:
    """Return what a file says without quotes as the word that it stands for: on and off are true and false in YAML."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


_DEFAULT_MODELS = {
    DrafterChoice.MODEL: BUNDLED,
    DrafterChoice.LOOKUP: "",
    DrafterChoice.MIXED: BUNDLED,
    DrafterChoice.SYNTHETIC: "synthetic",
}


class DraftSettings(ServerSettings):
    """All settings of `foreword serve draft`."""

    model_config = SettingsConfigDict(env_prefix="FOREWORD_DRAFT_")

    drafter: DrafterChoice | None = setting(
        None,
        "What drafts: a causal LM, prompt lookup, both (mixed: for each block the one that lately earned more), or a "
        "test model; none takes what model says, and mixed without one.",
    )
    model: str = setting(
        "",
        "Model of the drafter: bundled, which is made for the target embedded; a folder that foreword distill made; "
        "any model, by a folder, a hub id or embedded, with #layers=K for its first K layers; or synthetic:…. "
        "Empty takes bundled, or synthetic, where such a drafter is named; lookup takes none.",
        wanted="a model source",
    )
    name: str = setting(
        "",
        "What requests call this draft; empty takes the model's name, and leaves lookup without one.",
        wanted="a name",
    )
    target: str = setting(
        "",
        "Where a distilled draft finds its target's embedding and head; empty takes what it was made from.",
        wanted="a model source",
    )
    dtype: Dtype | None = setting(
        None,
        "Arithmetic of the model's forward passes; none takes the fastest, for it changes no text: int4 (a "
        "distilled draft) or int8 on a CPU, bfloat16 on a GPU.",
    )
    device: str = setting("auto", "Where the model runs; auto takes a GPU if there is one.", wanted=DEVICES)
    cache: Path | None = setting(None, "Folder of fetched models; none is the user's cache folder.")
    start_timeout_s: float = start_timeout()
    gamma_max: int = setting(16, "Longest block that is drafted.", unit="tokens", least=1, most=256)
    match_draw: MatchDraw = setting(
        MatchDraw.COUPLED,
        "How candidates are drawn under the rule match: with the target's noise, the draft's own, or the likeliest.",
    )
    temperature_scale: float = setting(
        1.0,
        "Factor of the request's temperature in the draft's law; the text's law does not depend on it.",
        over=0,
        most=10,
    )
    support_mass: float = setting(
        0.995, "Probability mass that a law on the wire covers.", unit="share", over=0, most=1
    )
    support_max: int = setting(128, "Most tokens of a law on the wire.", unit="tokens", least=1, most=4096)
    total_bits: int = setting(
        12, "Base-2 logarithm of the sum of a law's integer counts.", unit="bits", least=1, most=MAX_BITS
    )
    stop_threshold: float = setting(
        0.0, "Estimated survival under which a block ends, whatever is ordered; 0 never does.", least=0, most=1
    )
    draft_ahead: Annotated[DraftAhead, BeforeValidator(_of_switch)] = setting(
        DraftAhead.AUTO,
        "Whether the draft prepares for the likeliest outcomes of a block while it is verified; auto does on a GPU, as "
        "a CPU may have others to work for. It changes no text.",
    )
    branches: int = setting(16, "Most outcomes of a block that are prepared for.", unit="outcomes", least=1, most=256)
    lookup_min: int = setting(
        2,
        "Fewest tokens at the end of the text that must have come before for lookup to write on; the longest such end "
        "is what it goes on from.",
        unit="tokens",
        least=1,
        most=64,
    )
    max_sessions: int = setting(256, "Most sessions at a time.", unit="sessions", least=1)
    max_tokens: int | None = setting(
        None,
        "Most tokens of all sessions together; none takes what fits into memory_share, for lookup 262144.",
        unit="tokens",
        least=16,
    )
    memory_share: float = setting(
        0.2, "Share of the memory that is free at start which the cache of a model may take.", over=0, most=0.95
    )
    prefill_chunk: int = setting(256, "Most tokens that one step reads ahead.", unit="tokens", least=1)

    def check_files(self) -> None:
        """Raise what the server's files raise, and NotFound or Mismatch for a path without a model."""
        check_all(
            super().check_files,
            lambda: None if self.model in ("", BUNDLED) else check_there(self.model, distilled=True),
            lambda: check_there(self.target, field="target") if self.target else None,
        )

    def model_post_init(self, _: object) -> None:
        if self.drafter is DrafterChoice.LOOKUP and self.model:
            raise InvalidField("model", self.model, "no model for the drafter lookup, or the drafter model")
        if self.drafter is DrafterChoice.SYNTHETIC and self.model and not is_synthetic(self.model):
            raise InvalidField("model", self.model, "synthetic:… for the drafter synthetic")
        for name, source in (("model", self.model), ("target", self.target)):
            if source not in ("", BUNDLED):
                check_words(source, field=name)
        check_device_name(self.device)

    @property
    def chosen(self) -> DrafterChoice:
        """What drafts: what is named, else what the model is."""
        if self.drafter is not None:
            return self.drafter
        if not self.model:
            return DrafterChoice.MIXED
        return DrafterChoice.SYNTHETIC if is_synthetic(self.model) else DrafterChoice.MODEL

    def _spare_pages(self) -> int:
        """Return how many pages the blocks of all sessions reach into, beside their committed tokens."""
        return self.max_sessions * (1 + -(-self.gamma_max // PAGE_SIZE))

    def engine_config(self) -> EngineConfig:
        """Return what the engine process needs; raises InvalidField for values that do not fit together."""
        drafter = DrafterConfig(
            kind=Drafter[self.chosen.name],
            model=self.model or _DEFAULT_MODELS[self.chosen],
            name=self.name,
            target=self.target,
            dtype=self.dtype,
            threads=self.threads,
            device=self.device,
            cache=cache_folder(self.cache),
            chunk=max(512, self.prefill_chunk),
            budget=CacheBudget(self.max_tokens, self.memory_share, spare_pages=self._spare_pages()),
            style=Style(
                match_draw=self.match_draw,
                temperature_scale=self.temperature_scale,
                support_mass=self.support_mass,
                support_max=min(self.support_max, 1 << self.total_bits),
                total_bits=self.total_bits,
            ),
            lookup=LookupStyle(self.lookup_min).validate(),
        )
        longest = longest_block(drafter.style.support_max)
        if self.gamma_max > longest:
            raise InvalidField("gamma_max", self.gamma_max, f"at most {longest} with support_max {self.support_max}")
        room = Room(self.max_sessions, self.max_tokens)
        policy = Policy(
            self.gamma_max,
            self.stop_threshold,
            chunk=self.prefill_chunk,
            room=room,
            branches=0 if self.draft_ahead is DraftAhead.OFF else self.branches,
        )
        return EngineConfig(
            drafter,
            policy,
            ahead_on_gpu_only=self.draft_ahead is DraftAhead.AUTO,
            log_level=self.log.level,
            log_format=self.log.format,
        )
